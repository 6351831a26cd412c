"""Python runs this first where PYTHONPATH names its folder: what an audited session starts is audited too."""

import os

if "PYTHON_AUDITED_HOME" in os.environ:
    from tests.hostile.audited_session import audit_helper

    audit_helper(os.environ["PYTHON_AUDITED_HOME"], os.environ["PYTHON_AUDITED_NOTES"])
