"""Common parts of the tracker (`dcc.tracker`) and the QC database (`dcc.qc`): connections, schema, transactions."""
