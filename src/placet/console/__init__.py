"""The console: where people see what waits, decide it, settle what is unknown, stop things and read the audit.

    app      addresses, and what happens when something goes wrong behind them
    doors    who comes in, and which posts are a person's own
    visit    one request of a signed-in person
    pages/   what is asked of the gate, one module a subject
    values, gists, reach      arguments as they are drawn, in a line of a list, and counted
    entries, ways, timelines  events of the audit, the way of one call, how the calls of a run stand
    drawing, words, reasons, refusals    templates; sentences; what codes mean; how a refusal is said

It has no rules of its own: whatever it shows or does is a question to the gate. In `static`, `htmx`, `hx-csp` and
`hx-sse` are htmx 4.0.1 as published; `vendored.sha256` holds them to it.
"""
