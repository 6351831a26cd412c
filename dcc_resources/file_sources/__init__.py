"""File sources: where centres put their archives, and the protocols that they are reached by."""

import sys

# paramiko imports it for OpenSSH's configuration files, which nothing here reads: nearly half of what it takes.
sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]
