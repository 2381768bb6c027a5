"""Who stands at the door: API keys, tokens of OIDC issuers, and people's sessions.

door       one bearer text to the one that knows its kind
api_keys   agents' keys, looked up in the store each time
tokens     signed tokens of configured issuers; issuers: their keys, fetched within limits
sessions   what a person's browser keeps
"""
