package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Messages of the SSH agent protocol. Every other request fails: adding and removing keys,
// locking, smart cards, extensions.
const (
	agentFailure = 5
	agentList    = 11
	agentKeys    = 12
	agentSign    = 13
	agentSigned  = 14
)

const (
	maxAgentFrame = 256 << 10 // OpenSSH's own bound of a message
	maxAgentKeys  = 2048
	maxSignatures = 200 // of one sandbox: each of them has its place in the record
	sshUserAuth   = 50  // SSH_MSG_USERAUTH_REQUEST
)

// serveAgent answers as an SSH agent of one connection's client: it lists the keys that the
// policies could let it use, and signs where they allow it.
func (p *Proxy) serveAgent(ctx context.Context, conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		if conn.SetDeadline(time.Now().Add(p.limits.Idle)) != nil {
			return
		}
		req, err := readFrame(r)
		if err != nil {
			return
		}
		var answer []byte
		switch req[0] {
		case agentList:
			answer = p.listKeys(ctx)
		case agentSign:
			answer = p.signWith(ctx, req[1:])
		default:
			p.log.add(agentRefusal("the SSH agent only lists keys and signs here; it was asked for message " + strconv.Itoa(int(req[0]))))
		}
		if answer == nil {
			answer = []byte{agentFailure}
		}
		if writeFrame(conn, answer) != nil {
			return
		}
	}
}

// listKeys answers with the keys of the agent that the policies name.
func (p *Proxy) listKeys(ctx context.Context) []byte {
	answer, err := p.askAgent(ctx, []byte{agentList})
	if err != nil || answer[0] != agentKeys || len(answer) < 5 {
		p.log.add(agentRefusal("the SSH agent cannot be asked for its keys: " + asRefusal(err).reason))
		return nil
	}
	n, rest := binary.BigEndian.Uint32(answer[1:]), answer[5:]
	out, count := []byte{agentKeys, 0, 0, 0, 0}, uint32(0)
	for range min(n, maxAgentKeys) {
		blob, after, ok := cutString(rest)
		comment, after, also := cutString(after)
		if !ok || !also {
			return nil
		}
		rest = after
		if p.mayUse(keyName(blob)) {
			out, count = appendString(appendString(out, blob), comment), count+1
		}
	}
	binary.BigEndian.PutUint32(out[1:], count)
	return out
}

// mayUse reports whether the policies could allow any use of a key.
func (p *Proxy) mayUse(key string) bool {
	for _, use := range []string{target.AgentLogin, target.AgentSign} {
		to, err := target.AgentKey(use, "ssh-agent:"+key)
		if err == nil && p.chain.DecideAction(tool.Action{Kind: tool.Network, Target: to}).Effect != policy.Deny {
			return true
		}
	}
	return false
}

// signWith decides about one signature, has the agent make it, and records it.
func (p *Proxy) signWith(ctx context.Context, req []byte) []byte {
	rec := p.begin("ssh-agent")
	answer, err := p.sign(ctx, rec, req)
	p.end(rec, err)
	return answer
}

func (p *Proxy) sign(ctx context.Context, rec *record, req []byte) ([]byte, error) {
	blob, rest, ok := cutString(req)
	data, rest, also := cutString(rest)
	if !ok || !also || len(rest) != 4 {
		return nil, malformed("the request to the SSH agent is malformed")
	}
	use, purpose := purposeOf(blob, data)
	if use == "" {
		return nil, malformed("the SSH agent was asked to sign what is neither a login nor a signature of ssh-keygen -Y sign")
	}
	to, err := target.AgentKey(use, "ssh-agent:"+keyName(blob))
	if err != nil {
		return nil, malformed("the request to the SSH agent is malformed")
	}
	rec.to(to)
	rec.Purpose = purpose
	v, err := p.decide(ctx, tool.Action{Kind: tool.Network, Target: to})
	if err != nil {
		return nil, err
	}
	rec.allowed(v)
	if p.signed.Add(1) > maxSignatures {
		return nil, deny(ruleLimit, fmt.Sprintf("more than %d signatures in one call", maxSignatures))
	}
	flags := binary.BigEndian.Uint32(rest) & 6 // the hash that RSA signs with
	ask := binary.BigEndian.AppendUint32(appendString(appendString([]byte{agentSign}, blob), data), flags)
	answer, err := p.askAgent(ctx, ask)
	if err != nil {
		return nil, err
	}
	if answer[0] != agentSigned {
		return nil, failed("the SSH agent refused to sign")
	}
	rec.socket = true
	return answer, nil
}

// askAgent sends one request to the person's SSH agent.
func (p *Proxy) askAgent(ctx context.Context, req []byte) ([]byte, error) {
	if p.agent == "" {
		return nil, failed("no SSH agent runs here: SSH_AUTH_SOCK names no socket")
	}
	one, cancel := context.WithTimeout(ctx, p.limits.Connect)
	defer cancel()
	conn, err := network.DialSocket(one, p.agent)
	if err != nil {
		return nil, failed("the SSH agent cannot be reached")
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(p.limits.Idle)); err != nil { // a person may have to confirm
		return nil, err
	}
	if err := writeFrame(conn, req); err != nil {
		return nil, err
	}
	return readFrame(bufio.NewReader(conn))
}

// purposeOf tells from data the use of its signature, and the purpose that the data names.
// The use is "" for anything else, such as a certificate.
func purposeOf(blob, data []byte) (use, purpose string) {
	if rest, ok := bytes.CutPrefix(data, []byte("SSHSIG")); ok {
		namespace, rest, ok := cutString(rest)
		for range 3 { // reserved, hash algorithm, hash
			_, after, more := cutString(rest)
			rest, ok = after, ok && more
		}
		if !ok || len(rest) > 0 || len(namespace) == 0 {
			return "", ""
		}
		return target.AgentSign, "signature for " + shown(namespace)
	}
	_, rest, ok := cutString(data) // the session
	if !ok || len(rest) == 0 || rest[0] != sshUserAuth {
		return "", ""
	}
	var part [3][]byte // user, service, method
	rest = rest[1:]
	for i := range part {
		if part[i], rest, ok = cutString(rest); !ok {
			return "", ""
		}
	}
	if len(rest) == 0 || rest[0] != 1 {
		return "", ""
	}
	_, rest, ok = cutString(rest[1:]) // the algorithm
	key, rest, also := cutString(rest)
	if !ok || !also || !bytes.Equal(key, blob) {
		return "", ""
	}
	purpose = "login as " + shown(part[0])
	switch string(part[2]) {
	case "publickey":
	case "publickey-hostbound-v00@openssh.com":
		var host []byte
		if host, rest, ok = cutString(rest); !ok {
			return "", ""
		}
		purpose += " to the host with the key " + keyName(host)
	default:
		return "", ""
	}
	if len(rest) > 0 {
		return "", ""
	}
	return target.AgentLogin, purpose
}

// agentRefusal is the record of a request to the agent that names no key.
func agentRefusal(reason string) sandbox.Connection {
	return sandbox.Connection{Start: time.Now(), Via: "ssh-agent", Rule: ruleProtocol, Reason: reason}
}

// shown is a text of the sandbox, quoted and short.
func shown(b []byte) string {
	const most = 64
	if len(b) > most {
		return strconv.Quote(string(b[:most])) + "…"
	}
	return strconv.Quote(string(b))
}

// keyName is a key's fingerprint, as ssh-keygen -l prints it.
func keyName(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// cutString takes a length and so many bytes off b.
func cutString(b []byte) (s, rest []byte, ok bool) {
	if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, false
	}
	n := 4 + int(binary.BigEndian.Uint32(b))
	return b[4:n], b[n:], true
}

func appendString(b, s []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) //nolint:gosec // at most a frame
}

// readFrame reads one message, which has at least its type.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxAgentFrame {
		return nil, malformed("a message of the SSH agent protocol has no or too many bytes")
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

func writeFrame(w io.Writer, b []byte) error {
	_, err := w.Write(appendString(nil, b))
	return err
}
