"""The exceptions that Ray raises at the caller."""


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class RayTaskError(RayError):
    """What the actor has raised is its `cause`."""

    def __init__(self, cause):
        super().__init__(repr(cause))
        self.cause = cause
