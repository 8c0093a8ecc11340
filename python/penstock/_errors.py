"""The exceptions of Penstock: one class for each kind of penstock::Error."""

from typing import Any, Optional

__all__ = [
    "Error", "InvalidArgument", "NotFound", "DataLoss", "OutOfRange", "ResourceExhausted",
    "Unavailable", "Cancelled", "UserError", "InternalError", "DeviceLost", "NoProgress",
    "Mismatch", "Diverged", "Changed"]


class Error(Exception):
    """An error with an address. Unknown fields are None."""

    code: str = "internal"
    shard: Optional[str] = None
    offset: Optional[int] = None
    record: Optional[int] = None
    length: Optional[int] = None
    stage: Optional[str] = None
    member: Optional[str] = None


class InvalidArgument(Error, ValueError):
    """A wrong graph, option or callable."""


class NotFound(Error, FileNotFoundError):
    """A shard or component that does not exist."""


class DataLoss(Error):
    """Bytes that do not decode, or fail their checksum."""


class OutOfRange(Error, ValueError):
    """An index or a size beyond a limit."""


class ResourceExhausted(Error, MemoryError):
    """Memory budget, file descriptors, disk."""


class Unavailable(Error, OSError):
    """Input or output failed; another try may succeed."""


class Cancelled(Error):
    """The iterator was cancelled."""


class UserError(Error):
    """An exception left a user's function; `__cause__` is that exception."""


class InternalError(Error):
    """A defect of Penstock."""


class DeviceLost(Error):
    """A device failed for good."""


class NoProgress(Error, TimeoutError):
    """Something that should have ended did not."""


class Mismatch(Error, ValueError):
    """An element that does not fit its stage."""


class Diverged(Error):
    """Training whose loss is no number any more."""


class Changed(Error):
    """Data that changed while a run read it."""


_CLASSES: dict[str, type[Error]] = {
    "invalid_argument": InvalidArgument, "not_found": NotFound, "data_loss": DataLoss,
    "out_of_range": OutOfRange, "resource_exhausted": ResourceExhausted, "unavailable": Unavailable,
    "cancelled": Cancelled, "user": UserError, "internal": InternalError, "device_lost": DeviceLost,
    "no_progress": NoProgress, "mismatch": Mismatch, "diverged": Diverged, "changed": Changed}
for _code, _class in _CLASSES.items():
    _class.code = _code


def make(code: str, text: str, shard: str, offset: int, record: int, length: int, stage: str,
         member: str, cause: Any) -> Error:
    """Returns the exception of a penstock::Error."""
    error = _CLASSES.get(code, InternalError)(text)
    error.shard, error.stage, error.member = shard or None, stage or None, member or None
    error.offset, error.record, error.length = (n if n >= 0 else None for n in (offset, record, length))
    error.__cause__ = cause
    return error


def one_of(iterator: Any) -> tuple[Any, ...]:
    """Returns the next object of an iterator, alone in a tuple, or () at its end."""
    for value in iterator:
        return (value,)
    return ()
