package changeset

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
)

// maxDepth and maxChanges bound a changeset.
const (
	maxDepth   = 200
	maxChanges = 1_000_000
)

// Diff compares an upper layer with the folder below it, both open, and lists
// every path that differs, sorted, also each path that a deleted or replaced
// folder takes with it. The upper layer is not trusted. Names that a changeset
// cannot carry are listed as refused: devices, FIFOs, sockets, set-id bits, names that
// are not text, files with further names outside, marks of the overlay that point
// elsewhere. So are names that decide does not allow. Whiteouts
// (character device 0:0) and opaque folders are what overlayfs documents:
// https://docs.kernel.org/filesystems/overlayfs.html.
func Diff(ctx context.Context, upper, base int, decide Decide) ([]Change, error) {
	return diffKnown(ctx, upper, base, decide, nil)
}

// diffKnown is Diff, but does not read a file again that was not touched since it was
// recorded.
func diffKnown(ctx context.Context, upper, base int, decide Decide, then known) ([]Change, error) {
	st, err := statFD(base)
	if err != nil {
		return nil, err
	}
	d := &differ{keeps: walk.Most(), lists: walk.Most(), decide: decide, dev: st.Dev, mount: mountOf(base, "."), seen: map[[2]uint64][]int{}, then: then}
	if err := d.folder(ctx, ".", upper, base, false, 0); err != nil {
		return nil, err
	}
	d.outside()
	slices.SortFunc(d.out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	d.refuse()
	return d.out, nil
}

func statFD(fd int) (st unix.Stat_t, err error) { return st, unix.Fstat(fd, &st) }

type differ struct {
	keeps  *walk.Budget // changes, with their texts
	lists  *walk.Budget // names of the folders on the way
	decide Decide
	dev    devT   // of the base's file system
	mount  uint64 // of the base, where the kernel tells
	out    []Change
	seen   map[[2]uint64][]int // files of the upper layer with several names → their changes
	links  map[int]uint64      // change → how many names its file has
	then   known
}

func (d *differ) add(c Change) error {
	if d.keeps.Take(1, len(c.Path)+c.From.text()+c.To.text()) != nil {
		return tooMuch(c.Path)
	}
	d.out = append(d.out, c)
	return nil
}

// folder compares a folder that both layers have, or (base < 0) only the upper.
func (d *differ) folder(ctx context.Context, rel string, upper, base int, opaque bool, depth int) error {
	if depth > maxDepth || len(rel) > walk.MaxPath {
		return tooDeep(rel)
	}
	left := *d.lists
	defer func() { *d.lists = left }()
	list, err := names(ctx, upper, rel, d.lists)
	if err != nil {
		return fmt.Errorf("%s: %w", quote(rel), err)
	}
	for some := range slices.Chunk(list, 256) {
		if err := ctx.Err(); err != nil {
			return err
		}
		seen := d.look(rel, upper, base, some)
		for i, name := range some {
			if err := d.entry(ctx, join(rel, name), upper, base, name, seen[i], opaque, depth); err != nil {
				return err
			}
		}
	}
	if !opaque || base < 0 {
		return nil
	}
	below, err := names(ctx, base, rel, d.lists)
	if err != nil {
		return err
	}
	for _, name := range below {
		if _, kept := slices.BinarySearch(list, name); !kept {
			if err := d.deleted(ctx, join(rel, name), base, name, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry looks at one name of the upper layer. hidden says that the overlay does
// not show the base's side.
func (d *differ) entry(ctx context.Context, rel string, upper, base int, name string, l looked, hidden bool, depth int) error {
	if l.gone != nil {
		return l.gone
	}
	if isWhiteout(&l.up.st) {
		return d.deleted(ctx, rel, base, name, depth)
	}
	c := Change{Path: rel, From: l.base.Node, changed: changedAt(&l.base.st), was: keyOf(&l.base.st), held: keyOf(&l.up.st)}
	switch {
	case l.baseErr != nil:
		c.Refused = "what is there cannot be read: " + plain(l.baseErr)
	case l.base.mounted:
		c.Refused = mountedThere
	case l.base.odd != "":
		c.Refused = oddAttr(l.base.odd)
	}
	if typeOf(&l.up.st) == Folder {
		return d.upperFolder(ctx, c, upper, base, name, hidden, depth)
	}
	c.To = l.up.Node
	if why := l.bad(); why != "" {
		c.Refused = why
	}
	if c.From.Type == Folder {
		if err := d.emptied(ctx, rel, base, name, depth); err != nil {
			return err
		}
	}
	at := len(d.out)
	if err := d.changed(c); err != nil {
		return err
	}
	d.count(c, &l.up.st, at)
	return nil
}

// count notes the names of a file that has several; at is where its change is,
// if it is one.
func (d *differ) count(c Change, st *unix.Stat_t, at int) {
	if c.To.Type != File || st.Nlink < 2 {
		return
	}
	id := [2]uint64{uint64(st.Dev), st.Ino}
	if d.links == nil {
		d.links = map[int]uint64{}
	}
	if len(d.out) == at {
		at = -1 // the same as below, but a name all the same
	}
	d.seen[id] = append(d.seen[id], at)
	d.links[at] = uint64(st.Nlink)
}

// upperFolder looks at a folder of the upper layer and goes into it. All
// in an opaque folder is opaque too.
func (d *differ) upperFolder(ctx context.Context, c Change, upper, base int, name string, hidden bool, depth int) error {
	up, err := openFolder(upper, name)
	if err != nil {
		c.To, c.Refused = Node{Type: Folder}, "it cannot be read: "+plain(err)
		return d.changed(c)
	}
	defer shut(up)
	st, err := statFD(up)
	if err != nil {
		return err
	}
	// A folder keeps its set-id bits, and gets no others.
	f := found{st: st}
	if err := f.notes(up); err != nil && c.Refused == "" {
		c.Refused = "it cannot be read: " + plain(err)
	}
	bad, opaque := f.mark, f.opaque
	c.To = Node{Type: Folder, Mode: uint32(st.Mode)&0o1777 | c.From.Mode&0o6000, Attrs: f.Attrs}
	if f.odd != "" && c.Refused == "" {
		c.Refused = oddAttr(f.odd)
	}
	if bad != "" {
		c.Refused = bad
	}
	if err := unix.Faccessat(up, ".", unix.R_OK|unix.X_OK, unix.AT_EACCESS); err != nil && c.Refused == "" {
		c.Refused = "it cannot be read: " + plain(err)
	}
	below := -1
	if c.From.Type == Folder && c.Refused == "" {
		if below, err = openFolder(base, name); err != nil {
			c.Refused = "what is there cannot be read: " + plain(err)
		}
		defer shut(below)
	}
	if err := d.changed(c); err != nil {
		return err
	}
	if c.Refused != "" && (c.From.Type == Folder || bad == "") {
		return nil // listed as refused, and all that it holds with it
	}
	return d.folder(ctx, c.Path, up, below, opaque || hidden, depth+1)
}

// changed adds a change if it is one.
func (d *differ) changed(c Change) error {
	switch {
	case c.From.Type == Nothing:
		c.Kind = Added
	case c.From.content() != c.To.content():
		c.Kind = Modified
	case c.From != c.To:
		c.Kind = Mode
	case c.Refused == "":
		return nil
	default:
		c.Kind = Modified
	}
	return d.add(c)
}

// deleted adds what a whiteout takes away: all of it, name by name.
func (d *differ) deleted(ctx context.Context, rel string, base int, name string, depth int) error {
	if base < 0 {
		return nil
	}
	f, err := d.there(rel, base, name)
	from, st := f.Node, f.st
	c := Change{Path: rel, Kind: Deleted, From: from, changed: changedAt(&st), was: keyOf(&st)}
	switch {
	case err != nil:
		c.Refused = "what is there cannot be read: " + plain(err)
	case from.Type == Nothing:
		return nil
	case f.mounted:
		c.Refused = mountedThere
	case f.odd != "":
		c.Refused = oddAttr(f.odd)
	case from.Type == Special:
		c.Refused = "a device, FIFO or socket is not deleted"
	case from.Type == Folder:
		if err := d.emptied(ctx, rel, base, name, depth); err != nil {
			return err
		}
	}
	return d.add(c)
}

// emptied adds all that a folder of the base holds, as deleted.
func (d *differ) emptied(ctx context.Context, rel string, base int, name string, depth int) error {
	if depth > maxDepth || len(rel) > walk.MaxPath {
		return tooDeep(rel)
	}
	left := *d.lists
	defer func() { *d.lists = left }()
	fd, err := openFolder(base, name)
	if err != nil {
		return d.add(Change{Path: rel, Kind: Deleted, From: Node{Type: Folder}, Refused: "what is there cannot be read: " + plain(err)})
	}
	defer shut(fd)
	list, err := names(ctx, fd, rel, d.lists)
	if errors.Is(err, fault.LimitReached) || err != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	if err == nil {
		err = unix.Faccessat(fd, ".", unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return d.add(Change{Path: join(rel, "*"), Kind: Deleted, From: Node{Type: Special}, Refused: "what is there cannot be read: " + plain(err)})
	}
	for _, n := range list {
		if err := d.deleted(ctx, join(rel, n), fd, n, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// suspect returns the reason why a file of the upper layer is refused, or "".
func suspect(st *unix.Stat_t) string {
	switch t := typeOf(st); {
	case t == Special:
		return "a device, FIFO or socket is not carried over"
	case t != Link && uint32(st.Mode)&(unix.S_ISUID|unix.S_ISGID) != 0:
		return "it has a set-id bit"
	}
	return ""
}

// outside refuses files of the upper layer that have names elsewhere too.
func (d *differ) outside() {
	for _, at := range d.seen {
		for _, i := range at {
			if i >= 0 && d.links[i] != uint64(len(at)) && d.out[i].Refused == "" {
				d.out[i].Refused = "the file has further names (hard links) outside of the changeset"
			}
		}
	}
}

// refuse decides every change, and what depends on another's.
func (d *differ) refuse() {
	refused := map[string]string{} // folders that stay as they are
	for i := range d.out {
		c := &d.out[i]
		if c.Refused == "" {
			c.Refused = badName(c.Path)
		}
		if c.Refused == "" && !(utf8.ValidString(c.From.Target) && utf8.ValidString(c.To.Target)) {
			c.Refused = "the link's target is not UTF-8"
		}
		if c.Refused == "" {
			c.Refused = d.denied(c)
		}
		if c.Refused != "" {
			refused[c.Path] = c.Refused
		}
	}
	for i := range d.out {
		c := &d.out[i]
		for p := range ancestors(c.Path) {
			if _, ok := refused[p]; ok && c.Refused == "" {
				c.Refused = "its folder is refused"
			}
		}
	}
	d.ways()
	keep := map[string]bool{} // folders that something refused is left in
	for i := range d.out {
		if c := &d.out[i]; c.Refused != "" && c.From.Type != Nothing {
			for p := range ancestors(c.Path) {
				keep[p] = true
			}
		}
	}
	for i := range d.out {
		if c := &d.out[i]; c.From.Type == Folder && c.To.Type != Folder && keep[c.Path] && c.Refused == "" {
			c.Refused = "it holds what may not be deleted"
		}
	}
}

func (d *differ) denied(c *Change) string {
	if d.decide == nil {
		return "nothing says that it may be written"
	}
	if c.From.Type != Nothing && c.From.Type != c.To.Type {
		if err := d.decide(c.Path, ToDelete); err != nil {
			return fault.Message(err)
		}
		if c.To.Type == Nothing {
			return ""
		}
	}
	err := d.decide(c.Path, ToWrite)
	if err == nil {
		return ""
	}
	if c.To.Type == Folder && c.From.Type == Nothing && d.decide(c.Path, ToPass) == nil {
		c.way = fault.Message(err)
		return ""
	}
	return fault.Message(err)
}

// ways refuses new folders that nothing is carried over for: all that they hold
// is refused, or they are empty and may only be made to hold something.
func (d *differ) ways() {
	holds := map[string]bool{}             // folder → something in it is carried over
	for i := len(d.out) - 1; i >= 0; i-- { // what a folder holds comes after it
		c := &d.out[i]
		kept, full := holds[c.Path]
		if c.Refused == "" && c.From.Type == Nothing && c.To.Type == Folder && !kept {
			c.Refused = c.way
			if c.way == "" && full {
				c.Refused = "all that it holds is refused"
			}
		}
		up := path.Dir(c.Path)
		holds[up] = holds[up] || c.Refused == ""
	}
}

// ancestors gives the folders that a path is in, the nearest first.
func ancestors(p string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for {
			i := strings.LastIndexByte(p, '/')
			if i < 0 || !yield(p[:i]) {
				return
			}
			p = p[:i]
		}
	}
}

// badName refuses names that would not be shown as they are, and Remit's own.
func badName(p string) string {
	if !utf8.ValidString(p) {
		return "its name is not UTF-8"
	}
	if strings.ContainsFunc(p, unicode.IsControl) {
		return "its name holds a control character"
	}
	if tempName.MatchString(path.Base(p)) {
		return "it is a temporary file of a process that was killed"
	}
	return ""
}

// plain is an error of the system without what the caller knows already.
func plain(err error) string {
	var no unix.Errno
	if errors.As(err, &no) {
		return no.Error()
	}
	return err.Error()
}

// changedAt is when a name or its content was last touched,
// nanoseconds since 1970.
func changedAt(st *unix.Stat_t) int64 { return st.Ctim.Nano() }
