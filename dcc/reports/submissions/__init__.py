"""What a centre's data manager gets to every submission: a report of it, of a centre or of a session.

`collecting` gathers the facts, `page` makes an HTML page of them, `json_form` an object for programs, and `plain_text`
a summary for the terminal. `stored_reports` keeps pages of what a session touched.
"""
