"""Changes the program in one small place at a time, and asks whether the tests of its room notice.

    sources    the mutants of one file, as spans of its text
    patterns   the mutants of one regular expression
    runs       what becomes of them: one forked process for each
    report     scores, and the survivors that are explained

Mutants live in memory only; no file of the tree is changed. Why not mutmut 3 or cosmic-ray: mutmut 3 mutates only the
bodies of undecorated functions, and our rules are as often a table, a bound, a word list or a pattern at module level;
cosmic-ray has those but starts an interpreter and collects the tests anew for each mutant, over a second where a fork
of a warm process takes some hundredths, and it knows nothing of patterns.
"""
