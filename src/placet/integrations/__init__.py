"""Engines that carry runs, each with one optional dependency: Temporal, DBOS, LangGraph.

An engine decides when a run is advanced and in which process; what a step does, and whether it may, is decided by the
gate, whatever the engine. It is given the name of a run and gets back ids and fixed words, never anybody's data.
"""
