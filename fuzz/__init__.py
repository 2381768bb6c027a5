"""Bytes from a fuzzer against everything that reads what others wrote.

A target is a function of one byte string. It builds an input from the bytes, gives it to the code, and asserts what
must hold of any answer: that only documented errors come out, that nothing foreign is in them, that what was accepted
reads back as itself, that a second implementation agrees. Any exception out of a target is a finding.

Targets know no fuzzer: `engines` feeds them from atheris or from hypothesis, `tests/fuzz` from the files in `corpus`.
"""
