"""What is leaned on of paramiko: nothing private, and the public methods that `bounds.py` overrides."""

import ast
import inspect
from pathlib import Path

import paramiko
from paramiko.auth_handler import AuthHandler

from dcc.sources import sftp
from dcc.sources.sftp.bounds import BoundedLogin, BoundedPackets, BoundedTransport, StrictMessage

OVERRIDDEN = [
    (StrictMessage, "get_bytes", ["self", "n"]),
    (BoundedPackets, "read_all", ["self", "n", "check_rekey"]),
    (BoundedPackets, "read_message", ["self"]),
    (BoundedLogin, "send_auth_request", ["self", "username", "method", "finish_message"]),
    (BoundedTransport, "get_auth_handler", ["self"]),
    (BoundedTransport, "ensure_session", ["self"]),
]


def test_no_private_member_of_paramiko_is_used() -> None:
    modules = list(Path(sftp.__file__).parent.glob("*.py"))
    assert len(modules) > 3
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                assert ast.unparse(node.value) in ("self", "super()"), (
                    f"{path.name}, line {node.lineno}: {ast.unparse(node)}"
                )


def test_paramiko_has_and_calls_the_methods_that_bounds_override() -> None:
    for ours, method, arguments in OVERRIDDEN:
        assert list(inspect.signature(getattr(ours.__mro__[1], method)).parameters) == arguments, method
    transport = inspect.getsource(paramiko.Transport)
    assert "packetizer_class or Packetizer" in transport
    assert "self.packetizer.read_message()" in transport
    assert "self.auth_event" in inspect.getsource(AuthHandler.abort)
    assert "self.ensure_session()" in inspect.getsource(BoundedTransport.__mro__[1])
