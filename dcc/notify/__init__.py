"""Notifications: news for wranglers, centres and programs, sent once, by e-mail, webhook and log.

Sessions, sensors and commands call `notifications`. `messages` defines what a notification is, `channels` how one is
sent. `ledger` records what each recipient received, so that nothing is sent twice.
"""
