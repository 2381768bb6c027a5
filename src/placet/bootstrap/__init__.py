"""Settings to a running gate; the only place that names concrete adapters.

opening       what a program says, checked; a gate that can be entered
assembling    everything put together inside the event loop that will use it
stores        a place and a key to an open store, or a refusal
addresses     which words name a store, and how they may be shown
records       keys and audit of a store: verified, exported, rotated
looking       looks at a store that change nothing of it
scratch       stores in a real one's database that are dropped again
surroundings  clock, log and sink of a process
"""
