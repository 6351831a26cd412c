"""What a centre's data manager gets to every submission: a report of a zip action, a centre or a session.

`collecting` gathers the facts, `page` makes an HTML page of them, `json_form` an object for programs, `plain_text` a
summary for the terminal, and `kept` keeps pages of what a session touched.
"""
