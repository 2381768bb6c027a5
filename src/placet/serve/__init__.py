"""The process that puts the front doors of one gate together and lets the network in.

http_server   one listener: uvicorn, with the deadlines and silences that a boundary needs
serving       gate, API and worker from their beginning to their orderly end
"""
