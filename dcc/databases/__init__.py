"""What the platform's databases have in common, on SQLite and on MySQL and MariaDB: connections, schema, transactions.

The tracker is one (dcc.tracker), what documents say is another (dcc.qc).
"""
