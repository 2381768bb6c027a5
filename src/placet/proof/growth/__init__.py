"""A ledger as it is after years: millions of rows, and what things cost beside a young one.

specimens   one operation of each kind, done for real
years       how much there is, and what it is called; ledger, audit: its rows, made with the store's own keys
in_sqlite, in_postgres   put them straight into the tables
measuring   a young ledger and an old one side by side

What is filled is a whole store: its audit holds, its operations are replayed, its approvals verify. It is for measuring
all the same, and is filled into a store that nobody uses.
"""
