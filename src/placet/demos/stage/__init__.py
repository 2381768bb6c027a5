"""What every demo is told with: its lines, whoever decides, what is expected, and the search for planted secrets."""
