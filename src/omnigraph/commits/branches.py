"""Which branches and tags exist. A branch is a line of manifest versions; that line is the truth.

Creating and deleting happens one at a time, under a slot of their own. Creating a branch is one
step whatever the graph holds: no table is touched before a writer writes to it there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from omnigraph.commits.branch_ids import (
    MAIN_BRANCH,
    MANIFEST,
    BranchId,
    check_branch_name,
    check_name,
    new_branch,
    parse_branch_uid,
)
from omnigraph.commits.branch_refs import BranchRefs
from omnigraph.commits.manifest_reader import BranchState, ManifestReader
from omnigraph.commits.records import MAIN
from omnigraph.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    NotFoundError,
    OmniGraphError,
    VersionReclaimedError,
)
from omnigraph.failpoints import Failpoint, fire
from omnigraph.limits import BRANCH_CONTROL_ATTEMPTS_MAX, REMOVALS_AT_ONCE, SLOT_WAIT_S
from omnigraph.store import (
    RETIRED,
    HeldSlot,
    JournalView,
    Slots,
    Syncer,
    Tables,
    branch_exists,
    branch_files,
    children_first,
    create_tag,
    deletable_together,
    delete_branch,
    delete_forks,
    delete_tag,
    forget_retired,
    is_stored,
    list_tags,
    make_branch,
    read_floors,
    retire_branch,
    retired_branches,
    retired_note,
    side_by_side,
    split_branch,
    tag_file,
)
from omnigraph.values.commits import BranchInfo as BranchInfo
from omnigraph.values.commits import Tag as Tag

CONTROL_SLOT = "branches@control.json"
CLEANING_SLOT = "cleanup@control.json"
TAG_RESERVED = "omnigraph_"
_INNER_TAG = f"{TAG_RESERVED}commit."
"""Before a commit and the name of a tag: which commit of its graph version the tag names."""
_MAIN_INFO = BranchInfo(name=MAIN, branch_uid=MAIN)


def check_tag_name(name: str) -> None:
    """Refuse names a tag cannot have. Raises `BadRequestError`."""
    if name == MAIN:
        raise BadRequestError("main is a branch, not a tag name", hint="choose another name")
    check_name(name, "tag")
    if not name.isascii():
        # Lance writes the file of such a tag and then fails to list or clean up anything beside it.
        raise BadRequestError(
            f"{name!r} is not a tag name", hint="the letters of a tag are those of ASCII"
        )
    if "/" in name or name.startswith(TAG_RESERVED):
        raise BadRequestError(
            f"{name!r} is not a tag name", hint=f"no '/', and no '{TAG_RESERVED}' in front"
        )


class Retirement(Struct, frozen=True, kw_only=True):
    """What a branch that was deleted had to do with others."""

    merged: tuple[str, ...]
    """The branches it took merges from."""


class BranchDirectory:
    """Lists, makes and removes the branches and tags of one graph."""

    def __init__(
        self,
        main: ManifestReader,
        tables: Tables,
        slots: Slots,
        syncer: Syncer,
        new_id: Callable[[], str],
    ) -> None:
        self._main = main
        self._tables = tables
        self._files = tables.files
        self._root = tables.folder(MANIFEST)
        self._refs = BranchRefs(self._files, self._root)
        self._slots = slots
        self._syncer = syncer
        self._new_id = new_id
        self.check_graph: Callable[[], None] = lambda: None
        """Raises when another graph lies here by now; asked before branches change."""

    # ---- looking --------------------------------------------------------------------------

    def branches(self) -> list[BranchInfo]:
        """Return every branch: main first, the others by name."""
        # Before the refs: what is retired meanwhile is still shown, what is new is not hidden.
        retired = retired_branches(self._files, self._root)
        return [
            _MAIN_INFO,
            *(info for info in self._refs.infos() if info.branch_uid not in retired),
        ]

    def retired(self) -> list[BranchInfo]:
        """Return deleted branches whose history is kept, each before the one it was made from."""
        retired = retired_branches(self._files, self._root)
        infos = [info for info in self._refs.infos() if info.branch_uid in retired]
        return children_first(infos, name=lambda info: info.branch_uid)

    def ids(self) -> list[BranchId]:
        """Return every branch without where it was made: two listings, however many there are."""
        retired = retired_branches(self._files, self._root)
        return [MAIN_BRANCH, *(item for item in self._refs.ids() if item.uid not in retired)]

    def find(self, name: str) -> BranchInfo:
        """Return a branch by name. Raises `NotFoundError`."""
        if name == MAIN:
            return _MAIN_INFO
        living = self._living(self._refs.named(name))
        if not living:
            raise NotFoundError(f"branch '{name}' does not exist")
        return self.info(living[0])

    def _living(self, branches: list[BranchId]) -> list[BranchId]:
        """Return those of a few stored branches that were not deleted."""
        # Asked one by one: of one that is removed for good meanwhile the mark goes last.
        return [branch for branch in branches if self.exists(branch)]

    def info(self, branch: BranchId) -> BranchInfo:
        """Return where a branch was made. Raises `NotFoundError`."""
        if branch.is_main:
            return _MAIN_INFO
        info = self._refs.info(branch.uid)
        if info is None:
            raise NotFoundError(f"branch '{branch.name}' does not exist")
        return info

    def exists(self, branch: BranchId) -> bool:
        """Whether this life of a branch still goes on."""
        return branch.is_main or branch_exists(self._files, self._root, branch.uid)

    def check_kept(self, branch: BranchId, version: int) -> None:
        """Refuse a state that a cleanup gave up. Raises `VersionReclaimedError`."""
        floors = read_floors(self._files, self._root).by_branch
        asked = branch
        while (floor := floors.get(branch.uid)) is None:
            # Made since the last cleanup: what it has of its parent is as old as there.
            info = None if branch.is_main else self.info(branch)
            parent = None if info is None else parse_branch_uid(info.parent or MAIN)
            if info is None or parent is None or version >= info.forked_at:
                return
            branch = parent
        if not floor.holds(version):
            raise VersionReclaimedError(
                f"graph version {version} of branch '{asked.name}' is no longer kept",
                hint="a cleanup removed it; tag states that must stay",
            )

    # ---- changing -------------------------------------------------------------------------

    def control(self) -> contextlib.AbstractContextManager[HeldSlot]:
        """Hold the slot that lets one process at a time change branches or the schema."""
        return self._alone(CONTROL_SLOT, "branches have been changing")

    def cleaning(self) -> contextlib.AbstractContextManager[HeldSlot]:
        """Hold the slot that lets one process at a time clean up."""
        return self._alone(CLEANING_SLOT, "another cleanup has been running")

    @contextlib.contextmanager
    def _alone(self, name: str, what: str) -> Iterator[HeldSlot]:
        for _attempt in range(BRANCH_CONTROL_ATTEMPTS_MAX):
            slot = self._slots.take(name, b"") or self._slots.seize(name)
            if slot is not None:
                break
            if not self._slots.wait(name, timeout_s=SLOT_WAIT_S):
                raise ConflictError(
                    f"{what} for more than {SLOT_WAIT_S:g} seconds", hint="try again"
                )
        else:
            raise ConflictError(
                f"{what}, in {BRANCH_CONTROL_ATTEMPTS_MAX} attempts", hint="try again"
            )
        with slot:
            try:
                self.check_graph()
                yield slot
            except NotFoundError as error:
                if not slot.lapsed:
                    raise
                # Its owner was out for so long that another deleted what it was looking at.
                raise ConflictError(
                    f"{error.message}: it went while this was stopped", hint="try again"
                ) from error
            finally:
                slot.remove()

    def create(
        self,
        name: str,
        state: BranchState,
        begin: Callable[[BranchInfo, JournalView | None], None] | None = None,
    ) -> tuple[BranchInfo, JournalView | None]:
        """Make a branch whose first state is the captured one; return also its open manifest.

        That is None when the storage's answer was lost. With `begin`, which writes to the branch,
        it comes into sight when that is done; a cleanup takes one whose maker died before.
        """
        check_branch_name(name)
        with self.control() as slot:
            self._refuse_taken(name)
            self._refuse_missing(state.branch)
            if self._main.capture().head.schema_hash != state.head.schema_hash:
                # A branch of its own schema could never be merged, nor the schema changed again.
                raise ConflictError(
                    f"the schema has changed since graph version {state.version}, so no branch "
                    "can start there",
                    hint="read the old state by its version, commit or tag, or branch from main",
                )
            branch = new_branch(name, self._new_id())
            if begin is not None:
                self._syncer.sync([retire_branch(self._files, self._root, branch.uid)])
            view = None
            try:
                made = make_branch(state.view.dataset, branch.uid, state.version)
                view = JournalView(made, dict(state.view.rows_by_file))
            except OmniGraphError:
                # The answer may be lost, not the branch: no other call makes this uid.
                if not self.exists(branch):
                    raise
            fire(Failpoint.BRANCH_CREATE_POST_NATIVE)
            try:
                # After the branch is there, which a cleanup would see: see `store.floors`.
                self.check_kept(state.branch, state.version)
            except VersionReclaimedError:
                self._delete_lines([branch])
                raise
            self._syncer.sync(branch_files(self._files, self._root, branch.uid))
            if begin is not None:
                begin(self.info(branch), view)
                # Before: a cleanup that runs by now may have taken it for deleted. After: it
                # would not have been seen by one that came between.
                _refuse_lapsed(slot)
                self._forget_retired([branch.uid])
                _refuse_lapsed(slot)
                view = None
            return self.info(branch), view

    def _refuse_taken(self, name: str) -> None:
        taken = self._refs.in_the_way(name)
        nested = [branch for branch in taken if name.startswith(f"{branch.uid}/")]
        for other in nested or self._living(taken):
            raise AlreadyExistsError(
                f"branch '{name}' exists already"
                if name == other.name
                else f"branch '{name}' cannot exist beside '{other.name}'",
                hint="choose another name",
            )

    @contextlib.contextmanager
    def deleting(self, branch: BranchId) -> Iterator[None]:
        """Hold `control` around the removal of a branch.

        Raises `ConflictError` while branches or tags rest on it.
        """
        if branch.is_main:
            raise BadRequestError("the main branch cannot be deleted")
        with self.control():
            self._refuse_missing(branch)
            self._refuse_needed(branch)
            yield

    def is_used(self, branch: BranchId, forked_at: int, version: int) -> bool:
        """Whether a branch has commits of its own, or kept branches that were made from it."""
        return version > forked_at or bool(self._refs.children(branch.uid))

    def retire(self, branch: BranchId, retirement: Retirement | None = None) -> None:
        """Put a branch out of sight whose last commit was made. Needs its slot."""
        fire(Failpoint.BRANCH_DELETE_POST_FENCE)
        note = b"" if retirement is None else msgspec.json.encode(retirement)
        self._syncer.sync([retire_branch(self._files, self._root, branch.uid, note)])
        fire(Failpoint.BRANCH_DELETE_POST_NATIVE)

    def retirement(self, branch: BranchId) -> Retirement | None:
        """Return what was noted of a deleted branch; None if its history has to tell."""
        try:
            note = retired_note(self._files, self._root, branch.uid)
            return msgspec.json.decode(note, type=Retirement)
        except msgspec.DecodeError:
            return None

    def delete_line(self, branch: BranchId) -> None:
        """Remove the manifest of a branch that was never written to. Needs its slot."""
        self._delete_lines([branch])
        fire(Failpoint.BRANCH_DELETE_POST_NATIVE)

    def _delete_lines(self, branches: Sequence[BranchId]) -> None:
        """Remove manifests, none of which another one was made from."""
        try:
            side_by_side(self._delete_line, branches, at_once=REMOVALS_AT_ONCE)
        finally:
            self._syncer.sync_folder(f"{self._root}/_refs/branches")

    def _delete_line(self, branch: BranchId) -> None:
        try:
            delete_branch(self._files, self._root, branch.uid)
        except OmniGraphError:
            # A writer may still put files into its folder, which then cannot go. Without its ref
            # the branch is gone all the same; cleanup takes the folder.
            if is_stored(self._files, self._root, branch.uid):
                raise

    def delete_forks(self, branches: Sequence[BranchId]) -> None:
        """Free what branches that are gone left behind: it is only space."""
        owners = {branch.uid for branch in branches}
        pins = self._main.capture(fresh=False).pins.values()
        for path in sorted({split_branch(pin.path)[0] for pin in pins}):
            with contextlib.suppress(OmniGraphError):
                delete_forks(self._tables, path, owners)

    def purge(self, branches: Sequence[BranchInfo]) -> None:
        """Remove the histories of retired branches for good. The caller holds `control`.

        Those that came into sight since the caller looked are left alone.
        """
        retired = retired_branches(self._files, self._root)
        gone = [info for info in branches if info.branch_uid in retired]
        self.delete_forks([info.id for info in gone])
        for wave in deletable_together(gone, name=lambda info: info.branch_uid):
            self._delete_lines([info.id for info in wave])
            fire(Failpoint.BRANCH_PURGE_POST_NATIVE)
        self._forget_retired([info.branch_uid for info in gone])

    def _forget_retired(self, uids: Sequence[str]) -> None:
        """Remove marks. Where the branch is gone, that has to be on disk before."""
        for uid in uids:
            forget_retired(self._files, self._root, uid)
        if uids:
            self._syncer.sync_folder(f"{self._root}/{RETIRED}")

    def forget_unmade(self) -> None:
        """Remove the marks of branches that are gone, or were never made. Needs `control`."""
        marked = retired_branches(self._files, self._root)
        if marked:
            stored = {branch.uid for branch in self._refs.ids()}
            self._forget_retired(sorted(marked - stored))

    def _refuse_missing(self, branch: BranchId) -> None:
        if not self.exists(branch):
            raise NotFoundError(f"branch '{branch.name}' does not exist")

    def _refuse_needed(self, branch: BranchId) -> None:
        made = self._refs.children(branch.uid)
        children = [info.name for info in made if self.exists(info.id)]
        if children:
            raise ConflictError(
                f"branch '{branch.name}' has branches of its own: {', '.join(children)}",
                hint="delete or merge them first",
            )
        tags = [tag.name for tag in self.tags() if tag.branch == branch]
        if tags:
            raise ConflictError(
                f"branch '{branch.name}' carries tags: {', '.join(tags)}", hint="delete them first"
            )

    # ---- tags -----------------------------------------------------------------------------

    def tags(self) -> list[Tag]:
        """Return every tag, by name."""
        tags: list[Tag] = []
        refs = list_tags(self._main.view.dataset)
        inner = dict(_inner_tag(ref.name) for ref in refs if ref.name.startswith(_INNER_TAG))
        for ref in refs:
            branch = parse_branch_uid(ref.branch or MAIN)
            if branch is not None and not ref.name.startswith(TAG_RESERVED):
                tags.append(
                    Tag(
                        name=ref.name,
                        branch_name=branch.name,
                        branch_uid=branch.uid,
                        version=ref.version,
                        created_at_us=ref.created_at_us,
                        commit_id=inner.get(ref.name),
                    )
                )
        return tags

    def create_tag(self, name: str, state: BranchState, commit_id: str | None = None) -> Tag:
        """Name a captured state, or that of one of the commits published as its version."""
        check_tag_name(name)
        with self.control():
            if any(tag.name == name for tag in self.tags()):
                raise AlreadyExistsError(f"tag '{name}' exists already")
            self._refuse_missing(state.branch)
            branch = None if state.branch.is_main else state.branch.uid
            # What an interrupted call left would say something wrong of the new tag.
            self._forget_inner(name)
            named = {name: state.version}
            if commit_id is not None:
                inner = f"{_INNER_TAG}{commit_id}.{name}"
                named = {inner: self._start_inside(state), **named}
            for item, version in named.items():
                # The name itself comes last: from then on the tag can be seen.
                create_tag(self._main.view.dataset, item, branch, version)
                self._syncer.sync([tag_file(self._root, item)])
            try:
                self.check_kept(state.branch, state.version)
            except VersionReclaimedError:
                delete_tag(self._main.view.dataset, name)
                raise
            return self.find_tag(name)

    def _start_inside(self, state: BranchState) -> int:
        """Return the version that branches from inside a version start at; itself if it is gone."""
        before = state.version - 1
        gone = self._tables.is_gone(state.branch.path, before)
        return state.version if gone else before

    def _forget_inner(self, name: str) -> None:
        """Forget which commit a tag that is gone named."""
        for ref in list_tags(self._main.view.dataset):
            if ref.name.startswith(_INNER_TAG) and _inner_tag(ref.name)[0] == name:
                delete_tag(self._main.view.dataset, ref.name)
                self._syncer.sync_folder(f"{self._root}/_refs/tags")

    def find_tag(self, name: str) -> Tag:
        """Return a tag. Raises `NotFoundError`."""
        for tag in self.tags():
            if tag.name == name:
                return tag
        raise NotFoundError(f"tag '{name}' does not exist")

    def delete_tag(self, name: str) -> None:
        """Forget a tag; the state it named stays as long as any other."""
        with self.control():
            # One that an earlier release made with other letters keeps all tags from being listed.
            if name.isascii():
                self.find_tag(name)
            delete_tag(self._main.view.dataset, name)
            self._syncer.sync_folder(f"{self._root}/_refs/tags")
            self._forget_inner(name)


def _refuse_lapsed(slot: HeldSlot) -> None:
    if slot.lapsed:
        raise ConflictError(
            "the branch was being made for too long: another may be changing branches",
            hint="look whether it exists, and try again",
        )


def _inner_tag(text: str) -> tuple[str, str]:
    """Return the name of a tag, and the commit it names."""
    commit_id, _dot, name = text.removeprefix(_INNER_TAG).partition(".")
    return name, commit_id
