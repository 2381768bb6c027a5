"""Every command and every exit code, as data. Loads nothing, so that help costs nothing."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Exit(IntEnum):
    """How a command ended, for scripts."""

    OK = 0
    FAILED = 1
    USAGE = 2
    DENIED = 3
    NOT_ENTITLED = 4
    PENDING = 5
    NOT_APPROVED = 6
    UNKNOWN = 7
    INVALID = 8
    AUDIT_BROKEN = 9
    INTERRUPTED = 130


EXIT_MEANINGS: dict[Exit, str] = {
    Exit.OK: "done, or allowed",
    Exit.FAILED: "failed",
    Exit.USAGE: "wrong usage or configuration",
    Exit.DENIED: "denied by policy",
    Exit.NOT_ENTITLED: "not listed under [people], or not entitled",
    Exit.PENDING: "an approval is pending",
    Exit.NOT_APPROVED: "approval denied, expired, or not given",
    Exit.UNKNOWN: "outcome unknown: do not retry, reconcile; or still running elsewhere: ask again later",
    Exit.INVALID: "rejected by validation",
    Exit.AUDIT_BROKEN: "the audit chain is broken",
    Exit.INTERRUPTED: "interrupted",
}

WORST_FIRST = (
    Exit.UNKNOWN,
    Exit.FAILED,
    Exit.INVALID,
    Exit.DENIED,
    Exit.NOT_APPROVED,
    Exit.PENDING,
    Exit.OK,
)
"""A batch ends with the first of these that one of its calls ended with; calls that were not reached do not count."""


class Entry(NamedTuple):  # a dataclass would cost a tenth of the time that help may take
    """One word after `placet`.

    Attributes:
        module: where its typer app is, loaded when it is called.
        verbs: the words after it, with what they do; empty for a command without verbs.
    """

    name: str
    does: str
    module: str
    verbs: dict[str, str]


def _entry(name: str, does: str, **verbs: str) -> Entry:
    return Entry(name=name, does=does, module=f"placet.cli.commands.{name.replace('-', '_')}", verbs=verbs)


COMMANDS: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        _entry("init", "Start a project here: placet.toml, two tools, a test, a store and its key."),
        _entry("demo", "Watch a reference agent work behind the boundary."),
        _entry(
            "tools",
            "The tools of the project.",
            list="List the tools that are registered.",
            show="Show one tool's contract.",
            lint="Look for promises that will hurt later.",
            **{"import": "Show the operations of an OpenAPI document as tools, and write their first terms down."},
        ),
        _entry("call", "Put one proposal, or a file of them, through the gate."),
        _entry("agent", "Give a model of yours a task; every call it asks for passes the gate."),
        _entry(
            "approvals",
            "What waits for a person, and the answer.",
            list="List approvals of your tenant.",
            show="Show exactly what will run.",
            watch="Follow what waits, until you stop it. Nothing is decided here.",
            approve="Sign that exactly this call may run, once, or give your vote to it. Nothing runs now.",
            deny="Refuse the call; the reason goes back to the proposer.",
            edit="Make another question of it, with other arguments. Somebody else has to approve that one.",
            withdraw="Take back a question, or an approval that was not used yet.",
            **{"withdraw-vote": "Take back your vote, while other people's are waited for."},
        ),
        _entry(
            "grants",
            "Standing grants: leave given before the calls are made.",
            give="Say what a grant would cover, and sign it. Nothing runs now.",
            list="List the grants of your tenant that are good for something.",
            show="Show exactly what one covers, and how often it was used.",
            revoke="Take one back, everywhere. What it let through stays done.",
        ),
        _entry(
            "policy",
            "The policy file: what an ask needs, and who may give it.",
            check="Say all that is wrong with the policy file.",
            explain="Say what policy answers to a call, why, and who may approve it. Nothing runs.",
            shadow="Show the calls on record whose answer would change under the policy in shadow.",
        ),
        _entry(
            "effects",
            "What the ledger knows, and settling what is unknown.",
            list="List effects of your tenant.",
            show="Show one effect.",
            reconcile="Learn what became of unknown effects, then settle them.",
        ),
        _entry(
            "runs",
            "How far each run has come, and what is left open of it.",
            list="List the runs of your tenant, or your own.",
            show="Show one run, and what its calls came to.",
            pause="Let nothing more of a run be dispatched until it is resumed.",
            resume="Let a paused run go on where it was. It goes on counting.",
            cancel="End a run for good: its questions are withdrawn.",
        ),
        _entry("stop", "Halt a tool, an upstream, a tenant, a run or everything, or show what is halted."),
        _entry("resume", "Lift a stop."),
        _entry("serve", "Let the network in: the HTTP API of this project, until it is told to end."),
        _entry(
            "mcp",
            "MCP: this project's tools for MCP clients, and the tools of MCP servers behind the gate.",
            serve="Serve MCP, every call through the gate, and do what `placet worker` does beside it, until SIGTERM.",
            add="Write a server, and the most careful terms for its tools, into the project. Nothing is accepted.",
            list="Say how each tool of each upstream stands: accepted, new, changed, gone, quarantined.",
            diff="Show how what a server says of its tools differs from what was accepted.",
            accept="Accept what a server says of its tools now, after showing how it differs.",
            quarantine="Refuse a tool of a server, everywhere, until it is accepted anew.",
            login="Let this deployment in at an upstream that wants tokens of an authorization server.",
        ),
        _entry("worker", "Look after what was left behind: recover, probe, expire. Runs until it is told to end."),
        _entry(
            "notifications",
            "Where what happens is announced. `placet worker` sends it.",
            list="List the destinations, and what waits for each.",
            dead="List messages that were given up.",
            retry="Send a destination what was given up, and open it if it is closed.",
            close="Send a destination nothing until it is retried; what waits for it is kept.",
            test="Send a destination a message that says it is a test.",
            keys="Show the public keys that a webhook's receiver verifies with.",
        ),
        _entry(
            "audit",
            "Who did what, unaltered.",
            tail="Show the newest events of your tenant.",
            verify="Hold the whole audit, or an export of it, against its chains.",
            export="Write the audit as lines that can be checked away from the store.",
        ),
        _entry("purge", "Forget what finished long ago, or count it. Nothing of it is ever run again."),
        _entry(
            "holds",
            "Legal holds: what is held is not purged.",
            list="List what is held.",
            set="Hold everything, or a tenant's.",
            lift="Lift a hold, and only that one.",
        ),
        _entry(
            "metrics",
            "Rules and a dashboard for Prometheus and Grafana.",
            rules="Print recording rules and alerts, a Prometheus rule file.",
            dashboard="Print a Grafana dashboard.",
        ),
        _entry(
            "keys",
            "The keys of the store, and changing them.",
            list="List the keys, and what depends on each.",
            rotate="Make a new key sign from now on; the old ones still verify.",
            retire="Destroy an old key; what it signed is worth nothing any more, its audit stays verifiable.",
        ),
        _entry(
            "api-keys",
            "The keys that agents show at the front doors of your tenant.",
            create="Make a key for an agent. Its text is shown once.",
            list="List the keys, and when each was last used.",
            rotate="Make a new key for the same agent; the old one goes on for a while.",
            revoke="End a key now, everywhere.",
        ),
        _entry(
            "sessions",
            "Where people are signed in to the console, and ending that.",
            list="List your sessions, or your tenant's.",
            end="End one, a person's, or everybody's, on every host.",
        ),
        _entry("config", "What the settings are, and who said so.", show="Show each setting."),
        _entry("doctor", "Is this deployment safe to start? Looks, and changes nothing."),
        _entry("verify", "Every guarantee, tried against this project's own tools and policy."),
        _entry(
            "eval",
            "How well documents are found.",
            retrieval="Ask questions whose documents are known, and say how often those were found.",
        ),
        _entry("bench", "Measure what the boundary costs on this machine."),
        _entry("chaos", "Kill workers at every step under load, and count what really happened."),
        _entry(
            "completion",
            "Print a script that completes placet's words at your shell.",
            bash='For ~/.bashrc: eval "$(placet completion bash)"',
            zsh='For ~/.zshrc, after compinit: eval "$(placet completion zsh)"',
            fish="For config.fish: placet completion fish | source",
        ),
        _entry("version", "Print the version."),
    )
}

_HEAD = """\
Usage: placet COMMAND [ARGS]...

  A model proposes. placet decides, acts at most once, and can prove it.

"""
_CONFIGURATION = """\
Configuration, the first that says so: a flag (--config, --store, --key, --policy, --shadow), the environment
(PLACET_CONFIG, PLACET_STORE, PLACET_KEY, PLACET_POLICY, PLACET_SHADOW), placet.toml in this folder or above, the
default. Who you are is your user id's name in the system's password database; placet.toml lists who may decide.
Whoever can read the key file can sign: guard it.

With --server URL and --token-file FILE, call, tools list, approvals, grants, effects, runs, audit, stop and resume ask
a server; then nothing of this is read, and who you are is what the token says.

PLACET_DEBUG=1 shows where an unexpected error happened. NO_COLOR=1 and --no-color switch colour off.
"""


def root_help() -> str:
    """What `placet --help` prints."""
    lines: list[str] = []
    for entry in COMMANDS.values():
        words = f"{entry.name} {'|'.join(entry.verbs)}".rstrip()
        lines.append(f"  {words:<40} {entry.does}" if len(words) <= 40 else f"  {words}\n  {'':<40} {entry.does}")
    return (
        _HEAD
        + "Commands:\n"
        + "\n".join(lines)
        + "\n\nplacet COMMAND --help says more.\n\n"
        + exit_code_help()
        + "\n\n"
        + _CONFIGURATION
    )


def exit_code_help() -> str:
    """The exit codes, one line each; part of every help text."""
    return "Exit codes:\n" + "\n".join(f"  {code.value:<4} {meaning}" for code, meaning in EXIT_MEANINGS.items())
