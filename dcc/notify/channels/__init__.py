"""The ways in which people are told: e-mail, webhook, log; and how session reports are sent."""
