"""Notifications: news for wranglers, centres and programs, sent once, by e-mail, webhook and log.

Sessions, sensors and commands call `notifications`. `messages` defines what a notification is. `outages`, `digests` and
`notifiers` find what is news, and for whom. `composer` writes it, a `Round` of `rounds` sends it by `channels`, and
`ledger` records what each recipient received, so that nothing is sent twice.
"""
