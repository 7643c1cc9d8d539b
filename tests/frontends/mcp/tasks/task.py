"""What a task is, and the helpers that build and check the files of one.

Nothing here knows a server. A check reads the files on disk and the replies that a model has got; it returns the problem, or None.
Each task has a root of its own, so that the order of the tasks does not matter.
"""

from typing import Callable, NamedTuple, Optional


class Task(NamedTuple):
    key: str
    # What the user asks for.
    prompt: str
    build: Callable
    # Takes the root and the session; the problem, or None.
    check: Callable
    # Called by the script between two of its calls, where the task has something happen then.
    interlude: Optional[Callable] = None


TASKS = []


def task(prompt, build, interlude=None):
    """Registers a check, whose name is the key of the task."""

    def register(check):
        TASKS.append(Task(check.__name__, prompt, build, check, interlude))
        return check

    return register


def problem_of(task, session):
    """What is wrong with the result of a task, or None."""
    if session.pending_interlude:
        return "the script ended before the middle of the task"
    return next(iter(session.problems), None) or task.check(session.root, session)


def write(root, name, content):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def differs(root, expected):
    """The first file whose bytes are not the expected ones. None as content: the file must be missing."""
    for name, content in expected.items():
        path = root / name
        if content is None:
            if path.exists():
                return f"{name} is still there"
            continue
        if not path.is_file():
            return f"{name} is missing"
        if path.read_bytes() != (content if isinstance(content, bytes) else content.encode()):
            return f"{name} has other bytes than expected"
    return None


def unseen(session, texts):
    """The first line that no reply contains. White space around it does not count."""
    seen = session.texts()
    return next((f"no reply shows {text!r}" for text in texts if text.strip() not in seen), None)
