"""What a session has done so far, as far as later effects depend on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lockgate.core.vocabulary import Effect

MAX_PATHS = 1024
# Characters of one file and of all files of which the text is remembered; of more it is unknown.
MAX_TEXT, MAX_TEXTS = 64 * 1024, 1024 * 1024
_MAX_LINKS = 64
WRITES = frozenset(
    "edits-project writes-scratch writes-outside writes-startup-file installs-hook changes-pipeline"
    " changes-agent-file".split()
)


class Content(NamedTuple):
    """A file that a session wrote: its text, or None where that is unknown, and whether it is the whole file.

    `is_carried`: an earlier session wrote it after it had read untrusted text, and it does more than work here.
    """

    text: str | None = None
    is_whole: bool = True
    is_carried: bool = False


class Change(NamedTuple):
    """One change of a file: its full path, and the text that it gets, or that takes the place of the `replaced` one.

    A piece without `replaced` is added. `link` is the path that the file becomes a link to.
    """

    path: str
    text: str | None = None
    is_whole: bool = True
    replaced: str = ""
    link: str = ""


class Activity(NamedTuple):
    """The paths that earlier calls of a session downloaded or wrote, as the calls spelled them.

    `is_full` says that there were more than are kept: then any file may be one of them. `contents` are the files that
    the session wrote by their full paths, the latest last, and `links` where the links lead that it made.
    `is_near_own`: one of the texts may lead to Lockgate's own files. `secrets` are digests of those that it has read.
    """

    downloaded: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    is_full: bool = False
    contents: Mapping[str, Content] = {}
    links: Mapping[str, str] = {}
    is_near_own: bool = False
    secrets: frozenset[bytes] = frozenset()

    def after(self, effects: Sequence[Effect], changes: Sequence[Change] = ()) -> Activity:
        """Return the activity with what these effects and changes leave behind."""
        written = self.written.union(effect.target for effect in effects if effect.kind in WRITES and effect.target)
        fetched = (effect.target for effect in effects if effect.kind == "downloads-file" and effect.target)
        downloaded, activity = self.downloaded.union(fetched), self._with_changes(changes)
        if len(downloaded) > MAX_PATHS or len(written) > MAX_PATHS:
            return activity._replace(is_full=True)
        return activity._replace(downloaded=downloaded, written=written)

    def carrying(self, paths: Sequence[str]) -> Activity:
        """Return the activity with files that an earlier session wrote, where this one has not written them."""
        new = {path: Content(is_carried=True) for path in paths if path not in self.contents}
        return self._replace(contents={**new, **self.contents}) if new else self

    def having_read(self, secrets: frozenset[bytes]) -> Activity:
        """Return the activity with digests of secrets that were read; those that were read first stay."""
        return self._replace(secrets=self.secrets | secrets) if len(self.secrets) < MAX_PATHS else self

    def resolve(self, path: str) -> str:
        """Return where a full path leads by the links that the session made."""
        for _ in range(len(self.links)):
            link = next((link for link in self.links if f"{path}/".startswith(f"{link}/")), "")
            if not link:
                break
            path = self.links[link] + path[len(link) :]
        return path

    def find(self, path: str) -> Content | None:
        """Return what is known of a file by its full path; None for one that no call has written."""
        path = self.resolve(path)
        content = self.contents.get(path)
        if content is None and path[:1] not in ("/", "~"):
            # The folder is not known: another call may have spelled the whole path.
            content = next((self.contents[known] for known in self.contents if known.endswith(f"/{path}")), None)
        return Content() if content is None and self.is_full else content

    def below(self, path: str) -> Iterator[tuple[str, Content]]:
        """Yield what is known of a file, or of those in a folder, with the rest of their paths."""
        path = self.resolve(path)
        yield from (
            (name[len(path) :], content) for name, content in self.contents.items() if f"{name}/".startswith(f"{path}/")
        )

    def _with_changes(self, changes: Sequence[Change]) -> Activity:
        activity = self
        for change in changes:
            contents, links = dict(activity.contents), dict(activity.links)
            links.pop(change.path, None)
            if change.link:
                links[change.path] = change.link
            else:
                path = activity.resolve(change.path)
                contents[path] = _changed(contents.pop(path, None), change)
            is_full = activity.is_full or len(contents) > MAX_PATHS or len(links) > _MAX_LINKS
            links = dict([*links.items()][-_MAX_LINKS:])
            activity = activity._replace(contents=_bounded(contents), links=links, is_full=is_full)
        return activity


def _changed(content: Content | None, change: Change) -> Content:
    if change.is_whole or change.text is None:
        return Content(change.text)
    if content is None:
        return Content(change.text, is_whole=False)
    if content.text is None:
        return content
    if change.replaced and change.replaced in content.text:
        return content._replace(text=content.text.replace(change.replaced, change.text))
    return content._replace(text=f"{content.text}\n{change.text}" if change.replaced else content.text + change.text)


def _bounded(contents: dict[str, Content]) -> dict[str, Content]:
    """Return the latest contents, without the texts that are too long, and without the oldest of too many."""
    room, bounded = MAX_TEXTS, dict[str, Content]()
    for path, content in [*reversed(contents.items())][:MAX_PATHS]:
        size = len(content.text or "")
        room -= size
        bounded[path] = content if size <= MAX_TEXT and room >= 0 else content._replace(text=None)
    return dict(reversed(bounded.items()))


NO_ACTIVITY = Activity()
