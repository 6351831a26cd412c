"""What the tracker (`dcc.tracker`) and the QC database (`dcc.qc`) share: connections, schema, transactions."""
