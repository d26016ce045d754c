package infer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// words is the evidence of a tool's own name and title, and of strong words in
// its description. Words only add evidence: "get" in a name proves nothing. The
// exception is payments, whose words are too common in names of tools that read.
func words(spec *tool.Spec) []Reason {
	name := string(spec.ID)
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[i+1:]
	}
	own := tool.Words(name)
	has := set(append(own, tool.Words(spec.Title)...))
	remote := spec.Source == "api" || spec.Source == "mcp-remote"
	var out []Reason
	for _, words := range [][]string{own, tool.Words(spec.Title)} {
		if r, ok := moneyOf(words); ok {
			out = append(out, r)
			break
		}
	}
	if r, ok := argumentsOf(spec.Input); ok {
		out = append(out, r)
	}
	for _, m := range meanings {
		for _, w := range m.words {
			if !has[w] || m.with != nil && !anyOf(has, m.with) {
				continue
			}
			r := Reason{m.risk, m.effects(has, remote), fmt.Sprintf("its name says %q", w)}
			if m.with != nil {
				r.Why = fmt.Sprintf("its name says %q, and of what", w)
			}
			out = append(out, r)
			break
		}
	}
	return append(out, described(spec.Description, own, has, remote)...)
}

// described looks for what a description would hardly say of a harmless tool.
func described(text string, own []string, name map[string]bool, remote bool) []Reason {
	lower := strings.ToLower(text)
	if !slices.ContainsFunc(strong, func(m meaning) bool {
		return slices.ContainsFunc(m.words, func(w string) bool { return strings.Contains(lower, w) })
	}) {
		return nil // and none is one of its words
	}
	has := set(tool.Words(text))
	var out []Reason
	for _, m := range strong {
		if m.money && readsMoney(own) {
			continue
		}
		for _, w := range m.words {
			if has[w] && (m.with == nil || anyOf(has, m.with)) {
				out = append(out, Reason{m.risk, m.effects(merged(has, name), remote), fmt.Sprintf("its description says %q", w)})
				break
			}
		}
	}
	return out
}

func merged(a, b map[string]bool) map[string]bool {
	for w := range b {
		a[w] = true
	}
	return a
}

// meaning is what words stand for.
type meaning struct {
	words   []string
	with    []string // one of these must be there too; nil: no
	risk    tool.Risk
	effects func(has map[string]bool, remote bool) tool.Effects
	money   bool // of payments, which a name that reads of them explains
}

func onlyEffects(es ...tool.Effect) func(map[string]bool, bool) tool.Effects {
	s := tool.EffectSet(es...)
	return func(map[string]bool, bool) tool.Effects { return s }
}

// onThings chooses among effects by their object: rows of a database, things that are elsewhere, or
// else files.
func onThings(file, database tool.Effect) func(map[string]bool, bool) tool.Effects {
	return func(has map[string]bool, remote bool) tool.Effects {
		switch {
		case anyOf(has, databaseWords):
			return tool.EffectSet(database)
		case remote && !anyOf(has, fileWords):
			return tool.EffectSet(tool.NetworkHTTP)
		}
		return tool.EffectSet(file)
	}
}

var (
	fileWords     = strings.Fields("file files dir dirs directory directories folder folders path paths disk filesystem fs document")
	databaseWords = strings.Fields("sql database databases db table tables row rows record records collection collections schema index sqlite postgres mysql mongo redis")
	cloudWords    = strings.Fields("instance instances vm vms cluster clusters bucket buckets lambda stack droplet droplets kubernetes k8s pod pods namespace ec2 s3 gcp aws azure cloudformation terraform volume server servers deployment")
	keyWords      = strings.Fields("secret secrets credential credentials password passwords token tokens apikey apikeys key keys keychain vault")
	makeWords     = strings.Fields("create add new make put set write update save rotate generate import store provision launch start")
	readWords     = strings.Fields("read get list cat open view show head tail grep find search stat tree load fetch describe query select")
	dropWords     = strings.Fields("delete deletes remove removes rm rmdir unlink drop destroy erase purge wipe truncate terminate reset clear prune discard uninstall revoke shred del")
)

// meanings are the meanings of words in names.
var meanings = []meaning{
	{words: dropWords, with: cloudWords, risk: tool.Critical, effects: onlyEffects(tool.CloudResourceDelete)},
	{words: makeWords, with: cloudWords, risk: tool.Critical, effects: onlyEffects(tool.CloudResourceCreate)},
	{words: strings.Fields("deploy provision"), risk: tool.High, effects: onlyEffects(tool.CloudResourceCreate)},
	{words: slices.Concat(makeWords, dropWords), with: keyWords, risk: tool.Critical, effects: onlyEffects(tool.CloudKeyWrite)},
	{words: readWords, with: keyWords, risk: tool.High, effects: onlyEffects(tool.CloudKeyRead)},
	{words: strings.Fields("secret secrets credential credentials password passwords apikey apikeys keychain vault"), risk: tool.High, effects: onlyEffects(tool.CloudKeyRead)},
	{words: dropWords, risk: tool.High, effects: onThings(tool.FSDelete, tool.DatabaseDelete)},
	{words: strings.Fields("kill stop shutdown reboot restart"), risk: tool.High, effects: onlyEffects(tool.SystemExec)},
	{words: strings.Fields("chmod chown chgrp permissions acl"), risk: tool.High, effects: onlyEffects(tool.FSChmod)},
	{words: strings.Fields("exec execute shell bash sh zsh powershell cmd command commands eval spawn script terminal sudo run launch install subprocess python node"), risk: tool.High, effects: onlyEffects(tool.SystemExec)},
	{words: strings.Fields("sql"), risk: tool.High, effects: onlyEffects(tool.DatabaseRead, tool.DatabaseWrite, tool.DatabaseDelete)},
	{words: strings.Fields("write create add append edit update insert upsert modify patch replace save set put move rename copy mkdir touch store merge"), risk: tool.Medium, effects: onThings(tool.FSWrite, tool.DatabaseWrite)},
	{words: strings.Fields("move rename"), risk: tool.Medium, effects: onThings(tool.FSDelete, tool.DatabaseDelete)},
	{words: strings.Fields("send post publish tweet email mail sms share push upload notify broadcast webhook reply comment"), risk: tool.High, effects: onlyEffects(tool.NetworkHTTP)},
	{words: strings.Fields("http https fetch download url curl web crawl scrape browse browser navigate request"), risk: tool.Medium, effects: onlyEffects(tool.NetworkHTTP)},
	{words: strings.Fields("ssh telnet ftp sftp rsync"), risk: tool.High, effects: onlyEffects(tool.NetworkSocket)},
	{words: strings.Fields("socket tcp udp websocket listen connect ping"), risk: tool.Medium, effects: onlyEffects(tool.NetworkSocket)},
	{words: strings.Fields("dns resolve whois nslookup dig"), risk: tool.Medium, effects: onlyEffects(tool.NetworkDNS)},
	{words: strings.Fields("env environ environment getenv printenv"), risk: tool.Medium, effects: onlyEffects(tool.SystemEnv)},
	{words: readWords, with: databaseWords, risk: tool.Low, effects: onlyEffects(tool.DatabaseRead)},
	{words: readWords, with: fileWords, risk: tool.Low, effects: onlyEffects(tool.FSRead)},
}

// strong are the words that count in a description.
var strong = []meaning{
	{words: strings.Fields("delete deletes deleting permanently irreversible irreversibly destroy destroys wipes erases"), risk: tool.High, effects: onThings(tool.FSDelete, tool.DatabaseDelete)},
	{words: strings.Fields("overwrite overwrites"), risk: tool.Medium, effects: onThings(tool.FSWrite, tool.DatabaseWrite)},
	{words: strings.Fields("payment payments purchase purchases refund refunds payout"), risk: tool.High, effects: onlyEffects(tool.Payments), money: true},
	{words: strings.Fields("execute executes executing run runs"), with: strings.Fields("command commands shell script scripts bash subprocess program arbitrary"), risk: tool.High, effects: onlyEffects(tool.SystemExec)},
	{words: strings.Fields("credentials passwords"), risk: tool.High, effects: onlyEffects(tool.CloudKeyRead)},
}

func set(ws []string) map[string]bool {
	m := make(map[string]bool, len(ws))
	for _, w := range ws {
		m[w] = true
	}
	return m
}

func anyOf(has map[string]bool, ws []string) bool {
	return slices.ContainsFunc(ws, func(w string) bool { return has[w] })
}
