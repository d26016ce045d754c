package policy

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// Database is a database as the policies of a chain give it.
type Database struct {
	Name    string
	File    string        // of SQLite: absolute
	Server  string        // of PostgreSQL or MariaDB: its URL without a password, or "secret:NAME"
	Role    string        // of PostgreSQL, which statements take; "": that of the connection
	Rows    int           // max_rows: of one statement; 0: the tool's default
	Timeout time.Duration // of one statement; 0: the tool's default
	Refused string        // why it cannot be used; "" if it can

	chain Chain
}

// Reach decides whether a database's server may be connected to. Nobody is asked: a
// connection that needs approval is denied.
func (d *Database) Reach(a tool.Action) error {
	if e := d.chain.DecideAction(a); e.Effect != Allow {
		return fault.New(fault.HandleRefused, "%s: %s", a, e.Reason)
	}
	return nil
}

// SecretKey returns the key of the stored secret that is the database's URL, and false if
// the policy has the URL itself.
func (d *Database) SecretKey() (key string, ok bool) {
	name, ok := strings.CutPrefix(d.Server, secretURL)
	return Secret{Store: name}.Key(), ok
}

// databases combines the databases of the policies that decide them. Only the first of these
// says where a database is, since a later policy can only narrow. A later one may repeat that.
func (c Chain) databases() []Database {
	var out []Database
	first := true
	for _, r := range c {
		if r == nil || r.policy == nil {
			return nil
		}
		if r.sections[databaseReadSection].inherits {
			continue
		}
		for _, d := range r.policy.content().databases.list {
			i := slices.IndexFunc(out, func(o Database) bool { return o.Name == d.name })
			if i < 0 && !first {
				continue // the first policy does not name it, which denies it
			}
			if i < 0 {
				out, i = append(out, Database{Name: d.name, chain: c}), len(out)
			}
			o, file, server := &out[i], d.file(r.env), d.server()
			where, is := file+server, o.File+o.Server
			switch {
			case !first && where != "" && is == "":
				o.Refused = "a narrowing policy says where it is, and the first policy does not"
			case where != "" && is != "" && is != where:
				o.Refused = "two policies name different places for it"
			case !first && d.role != "" && d.role != o.Role:
				o.Refused = "a narrowing policy names a role that the first policy does not"
			case server != "" && is == "":
				o.Server, o.Role = server, d.role
			case file != "" && r.ofState(glob.Fold(file)):
				o.Refused = "its file is one of Remit's own"
			case file != "":
				o.File = file
			}
			least(&o.Rows, d.rows)
			least(&o.Timeout, d.timeout)
		}
		first = false
	}
	return out
}

// databaseSettings is the section databases. The entries of all databases are in read
// and write; entries of deny are in both.
type databaseSettings struct {
	read, write section
	list        []database
}

// database is one database of a policy, without its entries.
type database struct {
	pos     fault.Pos
	name    string
	url     string // "" leaves it to another policy of the chain
	role    string
	rows    int
	timeout time.Duration
	hold    Hold // of statements that write
}

const (
	sqliteURL = "sqlite:"
	secretURL = "secret:"
)

// server returns the URL of a database on a server, or the name of the secret that it is.
func (d *database) server() string {
	if strings.HasPrefix(d.url, sqliteURL) {
		return ""
	}
	return d.url
}

// file returns the absolute path of a SQLite database.
func (d *database) file(env Env) string {
	name, ok := strings.CutPrefix(d.url, sqliteURL)
	switch {
	case !ok:
		return ""
	case strings.HasPrefix(name, "~/"):
		return path.Join(env.Home, name[2:])
	case path.IsAbs(name):
		return path.Clean(name)
	}
	return path.Join(env.Workspace, name)
}

var databaseName = regex.Lazy(`^[a-z][a-z0-9_-]{0,39}$`)

func (s *databaseSettings) setting() setting {
	return setting{"databases", func(p *parser) document.Field {
		return func(n *document.Node, path string) {
			s.read.set, s.write.set, s.read.allowSet, s.write.allowSet = true, true, true, true
			if n.Kind != document.Mapping {
				p.Expected(n, path, "a mapping of names to databases").Hint = "write databases: {main: {url: \"sqlite:app.db\", read: [orders]}}"
				return
			}
			p.Each(n, path, func(key, value *document.Node, path string) {
				if !databaseName.MatchString(key.Text) {
					p.Fail(key, path, "%q is not a valid name of a database; expected lower-case letters, digits, - and _", clip.Text(key.Text, 40))
					return
				}
				s.database(p, key, value, path)
			})
		}
	}, s.print}
}

func (s *databaseSettings) database(p *parser, key, n *document.Node, path string) {
	d := database{pos: p.Pos(key), name: key.Text}
	list := func(word string, e Effect, into ...*section) document.Field {
		at := 0
		return p.List(0, func(n *document.Node, path string) {
			text, ok := p.Text(n, path)
			if !ok {
				return
			}
			pat, err := parseTable(d.name, text, e)
			if err != nil {
				p.Fail(n, path, "%s", plain(err))
			} else {
				pat.field = "databases." + d.name + "." + word + "[" + strconv.Itoa(at) + "]"
				for _, sec := range into {
					sec.lists[e] = append(sec.lists[e], entry{p.Pos(n), pat})
				}
			}
			at++
		})
	}
	p.mapping(n, path, document.Fields{
		"url":      p.String(&d.url, checkDatabaseURL),
		"read":     list("read", Allow, &s.read),
		"write":    list("write", Allow, &s.write),
		"deny":     list("deny", Deny, &s.read, &s.write),
		"role":     p.String(&d.role, checkDatabaseRole),
		"max_rows": document.Int(p.Reader, &d.rows, 1, maxRows),
		"timeout":  p.Duration(&d.timeout),
		"hold":     p.hold(&d.hold),
	})
	if d.role != "" && (d.server() == "" || strings.HasPrefix(d.url, "m")) {
		p.Fail(n, path+".role", "a role needs the url of a PostgreSQL database beside it")
	}
	s.list = append(s.list, d)
}

const maxRows = 100_000

var databaseRole = regex.Lazy(`^[a-z_][a-z0-9_]{0,62}$`)

func checkDatabaseRole(s string) error {
	if !databaseRole.MatchString(s) || s == "none" {
		return fmt.Errorf("%q is not a valid role; expected lower-case letters, digits and _", clip.Text(s, 60))
	}
	return nil
}

// checkDatabaseURL repeats no value, since that of another database has a password.
func checkDatabaseURL(s string) error {
	file, isFile := strings.CutPrefix(s, sqliteURL)
	name, isSecret := strings.CutPrefix(s, secretURL)
	u, err := url.Parse(s)
	switch {
	case isFile && file != "" && !strings.ContainsAny(file, "\x00?#"), isSecret && checkStored(name) == nil:
		return nil
	case isFile || isSecret || err != nil || !slices.Contains([]string{"postgres", "postgresql", "mariadb", "mysql"}, u.Scheme):
		return fmt.Errorf("the URL is not of a database that Remit knows; expected sqlite:data/app.db, postgres://USER@HOST/NAME, mariadb://USER@HOST/NAME, or secret:NAME")
	}
	if _, set := u.User.Password(); set || strings.Contains(strings.ToLower(u.RawQuery), "password") {
		return fmt.Errorf("the URL has a password; expected secret:NAME, where the whole URL is the stored secret NAME")
	}
	return nil
}

func (s *databaseSettings) print(w *printer, in int) {
	if !s.read.set {
		return
	}
	if len(s.list) == 0 {
		w.line(in, "databases: {}")
		return
	}
	w.line(in, "databases:")
	for i := range s.list {
		d := &s.list[i]
		texts := func(list []entry) string {
			var out []string
			for k := range list {
				if p := list[k].pattern.(*tablePattern); p.database == d.name {
					out = append(out, p.text)
				}
			}
			return quoteAll(out)
		}
		text := func(key, v string) setting {
			return value(key, func(*parser) document.Field { return nil }, func() string { return v })
		}
		at, role := "", ""
		if d.url != "" {
			at = quote(d.url)
		}
		if d.role != "" {
			role = quote(d.role)
		}
		w.mapping(in+1, quote(d.name), true, []setting{text("url", at), text("read", texts(s.read.lists[Allow])), text("write", texts(s.write.lists[Allow])),
			text("deny", texts(s.read.lists[Deny])), text("role", role), count("max_rows", &d.rows, 1), duration("timeout", &d.timeout), text("hold", d.hold.text())})
	}
}

// judgeDatabase decides a statement: the database must be named, and for each table and
// column that it uses an entry must allow it.
func (r *Rules) judgeDatabase(id sectionID, a *tool.Action, link int, all *collector) (Effect, *boundEntry) {
	list := r.policy.content().databases.list
	i := slices.IndexFunc(list, func(d database) bool { return d.name == a.Database })
	if i < 0 {
		all.refuse(r, link, a, "the policy names no database "+strconv.Quote(clip.Text(a.Database, 60)))
		return Deny, nil
	}
	named := r.synthetic("databases."+a.Database, "allowed by databases."+a.Database)
	named.rule.Line = list[i].pos.Line
	effect, first := Allow, &named
	for k := range a.Uses {
		u := &a.Uses[k]
		if u.Refused != "" {
			all.refuse(r, link, a, u.Refused)
			return Deny, nil
		}
		e, b := r.search(id, &facts{action: a, use: u}, link, all)
		effect = min(effect, e)
		if k == 0 || e == Deny {
			first = b
		}
		if e != Allow && all == nil {
			return e, b
		}
	}
	if len(a.Uses) == 0 {
		all.match(link, &named, a, nil)
	}
	return effect, first
}

// verb is the last part of a section's name.
func (s sectionID) verb() string {
	_, v, _ := strings.Cut(s.String(), ".")
	return v
}

// DatabaseExample returns an action that a pattern matches, as Entry.Pattern has it.
func DatabaseExample(k tool.ActionKind, pattern string) tool.Action {
	name, text, _ := strings.Cut(pattern, ": ")
	a := tool.Action{Kind: k, Database: name}
	if p, err := parseTable(name, text, Allow); err == nil {
		u := tool.TableUse{Schema: strings.ReplaceAll(p.schemaText, "*", "x"), Table: strings.ReplaceAll(p.tableText, "*", "x")}
		if len(p.columns) > 0 {
			u.Column = p.columns[0]
		}
		a.Uses = []tool.TableUse{u}
	}
	return a
}

// ofState reports whether a folded path is the state folder or in it.
func (r *Rules) ofState(folded string) bool {
	return r.inState(folded, len(folded)) || len(folded) > len(r.state) && r.inState(folded, len(r.state))
}
