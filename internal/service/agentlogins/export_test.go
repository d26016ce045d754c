package agentlogins

import "time"

// Renewing has an agent's login renewed at another URL.
func (l *Logins) Renewing(agent, url string) {
	k := l.kinds[agent]
	k.url = url
	l.kinds[agent] = k
}

// At sets the clock.
func (l *Logins) At(now func() time.Time) { l.now = now }
