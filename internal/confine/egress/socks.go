package egress

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"strconv"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// SOCKS5 (RFC 1928) with user name and password (RFC 1929).
const (
	socksVersion  = 5
	socksPassword = 2
	socksNoMethod = 0xff

	socksConnect = 1
	socksV4      = 1
	socksName    = 3
	socksV6      = 4

	socksOK         = 0
	socksDenied     = 2
	socksNoHost     = 4
	socksNoCommand  = 7
	socksNoAddrType = 8
)

// socksError is a request that is answered with a code of the protocol.
type socksError struct {
	code   byte
	reason string
}

func (e *socksError) Error() string { return e.reason }

// serveSOCKS serves one connection by SOCKS5.
func (p *Proxy) serveSOCKS(ctx context.Context, s *stream) {
	given, err := readSocksHello(s.br, s.bw)
	rec := p.begin("socks5")
	if err != nil {
		p.end(rec, malformed(err.Error()))
		return
	}
	if !p.knows(given) {
		_, _ = s.conn.Write([]byte{1, 1})
		p.end(rec, deny(ruleCredentials, "the credentials are not this sandbox's"))
		return
	}
	if _, err := s.conn.Write([]byte{1, 0}); err != nil {
		return
	}
	to, err := readSocksRequest(s.br)
	var bad *socksError
	switch {
	case errors.As(err, &bad):
		socksReply(s, bad.code)
		p.end(rec, deny(ruleProtocol, bad.reason))
		return
	case err != nil:
		p.end(rec, malformed("the SOCKS5 request broke off"))
		return
	}
	p.serveTunnel(ctx, s, rec, to, func(no *refusal) bool {
		code := byte(socksOK)
		switch {
		case no != nil && no.failure:
			code = socksNoHost
		case no != nil:
			code = socksDenied
		}
		return socksReply(s, code)
	})
}

func socksReply(s *stream, code byte) bool {
	_, err := s.conn.Write([]byte{socksVersion, code, 0, socksV4, 0, 0, 0, 0, 0, 0})
	return err == nil
}

// readSocksHello reads the greeting and the credentials, as user:password.
func readSocksHello(br *bufio.Reader, bw *bufio.Writer) (given string, err error) {
	var b [2]byte
	if _, err := io.ReadFull(br, b[:]); err != nil {
		return "", errors.New("the SOCKS5 greeting broke off")
	}
	if b[0] != socksVersion || b[1] == 0 {
		return "", errors.New("the SOCKS5 greeting is not one")
	}
	methods := make([]byte, b[1])
	if _, err := io.ReadFull(br, methods); err != nil {
		return "", errors.New("the SOCKS5 greeting broke off")
	}
	method := byte(socksNoMethod)
	for _, m := range methods {
		if m == socksPassword {
			method = m
		}
	}
	_, _ = bw.Write([]byte{socksVersion, method}) // its error comes back at the flush
	if err := bw.Flush(); err != nil {
		return "", errors.New("the SOCKS5 greeting broke off")
	}
	if method == socksNoMethod {
		return "", errors.New("the SOCKS5 client offers no password")
	}
	version, err := br.ReadByte()
	if err != nil || version != 1 {
		return "", errors.New("the SOCKS5 credentials are not any")
	}
	name, err := readShort(br)
	if err != nil {
		return "", errors.New("the SOCKS5 credentials broke off")
	}
	pass, err := readShort(br)
	if err != nil {
		return "", errors.New("the SOCKS5 credentials broke off")
	}
	return name + ":" + pass, nil
}

// readShort reads a string with its length in one byte before it.
func readShort(br *bufio.Reader) (string, error) {
	n, err := br.ReadByte()
	if err != nil {
		return "", err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(br, b)
	return string(b), err
}

// readSocksRequest reads a request to connect, and nothing after it. A valid
// request that is not supported is a socksError.
func readSocksRequest(br *bufio.Reader) (tool.Target, error) {
	var b [4]byte
	if _, err := io.ReadFull(br, b[:]); err != nil {
		return tool.Target{}, noEOF(err)
	}
	if b[0] != socksVersion || b[2] != 0 {
		return tool.Target{}, io.ErrUnexpectedEOF
	}
	host, err := readSocksHost(br, b[3])
	if err != nil {
		return tool.Target{}, err
	}
	var port [2]byte
	if _, err := io.ReadFull(br, port[:]); err != nil {
		return tool.Target{}, noEOF(err)
	}
	if b[1] != socksConnect {
		return tool.Target{}, &socksError{socksNoCommand, "only CONNECT is done, neither BIND nor UDP ASSOCIATE"}
	}
	t, err := target.ParseTCP(host + ":" + strconv.Itoa(int(binary.BigEndian.Uint16(port[:]))))
	if err != nil {
		return tool.Target{}, &socksError{socksDenied, fault.Message(err)}
	}
	return t, nil
}

func readSocksHost(br *bufio.Reader, kind byte) (string, error) {
	switch kind {
	case socksName:
		host, err := readShort(br)
		return host, noEOF(err)
	case socksV4:
		var a [4]byte
		_, err := io.ReadFull(br, a[:])
		return netip.AddrFrom4(a).String(), noEOF(err)
	case socksV6:
		var a [16]byte
		_, err := io.ReadFull(br, a[:])
		return "[" + netip.AddrFrom16(a).String() + "]", noEOF(err)
	}
	return "", &socksError{socksNoAddrType, "the SOCKS5 address is of no known kind"}
}
