"""The process that puts the front doors of one gate together and lets the network in.

http_server   one listener: uvicorn, with the deadlines and silences that a boundary needs
tls           what it shows for itself, where nobody in front does
front         API and console behind one address, and whose word on a request is believed
numbers       the metrics at an address of their own
serving       gate, API and worker from their beginning to their orderly end
"""
