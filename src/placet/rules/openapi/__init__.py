"""An OpenAPI document as operations with contracts: what each takes, what it sends, and what an answer means.

    document ── documents ── Operation ── requests ── HttpRequest
                   │                      answers ─── what came back means
                   └ references, schemas, parameters, arguments, results

Source: OpenAPI 3.0.4 and 3.1.1; ADR-0047.
"""
