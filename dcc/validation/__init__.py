"""`dcc validate`: submissions checked before they are uploaded, as a session would check them."""
