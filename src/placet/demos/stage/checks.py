"""What a demo expects of itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from placet.demos.stage.talk import Talk


@dataclass(slots=True)
class Checks:
    """What has to be true, said at the moment it is looked at."""

    talk: Talk
    held: int = 0
    failed: list[str] = field(default_factory=list)

    def expect(self, what: str, is_so: bool) -> None:
        """Note whether it is so; a failure does not end the story, but it will not end well."""
        if is_so:
            self.held += 1
            self.talk.line(f"{self.talk.painted('green', 'ok')}  {what}")
        else:
            self.failed.append(what)
            self.talk.line(f"{self.talk.painted('red', 'FAILED')}  {what}")
