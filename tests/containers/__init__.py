"""The containers of deploy/, really started."""
