"""Notifications: what somebody should know without asking, told once, by e-mail, webhook and log.

`sending` is what sessions, sensors and the command call; `messages` says what a notification is, `channels` how one is
added; `ledger` sees to it that nothing is told twice.
"""
