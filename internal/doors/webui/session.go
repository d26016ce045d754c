package webui

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/chat"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/report"
	"github.com/remitrun/remit/internal/service/replays"
)

const (
	messagesPerPage = 50
	maxSubThreads   = 10 // sub-agents whose threads are shown
	subThreadSize   = 8  // their last messages
)

// sessionView is a conversation.
type sessionView struct {
	sessionLine
	thread
	Earlier   string // path of the messages before; "": there are none
	Latest    string // path of the newest messages; "": they are shown
	Children  []childThread
	MoreKids  bool
	Card      *cardView // a question of the session
	Command   *commandView
	Typed     string // the message that could not be sent
	Alert     *httpapi.Problem
	CanPause  bool
	CanResume bool
	CanCancel bool
	Ended     bool
	Replayed  *replays.SessionSummary // nil before a replay
}

// CanReplay reports whether the session's runs have ended, so that they can be carried out again.
func (v sessionView) CanReplay() bool { return v.Last > 0 && !v.CanPause && !v.CanResume }

// childThread is a sub-agent with its last messages.
type childThread struct {
	sessionLine
	thread
}

// Live reports whether answers of the sub-agent can come in.
func (c childThread) Live() bool { return c.State == agent.Working }

// commandView is the result of a slash command.
type commandView struct {
	Help string // "": a call was made
	Run  runLine
	Call callLine
	Out  []value
}

func (s *Server) session(x *exchange) (*page, error) {
	return s.sessionPage(x, x.r.PathValue("id"), sessionView{})
}

// sessionPage makes the page of a session. The view has the unsent message with its problem, or
// the result of a replay.
func (s *Server) sessionPage(x *exchange, id string, v sessionView) (*page, error) {
	v.Now = x.now
	if err := x.api.get("/v1/sessions/"+url.PathEscape(id), nil, &v.Session); err != nil {
		return nil, err
	}
	id = v.ID.String()
	v.AgentName = x.agentNames()[v.Agent.String()]
	from, err := strconv.Atoi(x.r.URL.Query().Get("from"))
	if newest := max(1, v.Last-messagesPerPage+1); err != nil || from < 1 || from > newest {
		from = newest
	} else if from < newest {
		v.Latest = "/ui/sessions/" + id
	}
	if v.thread, err = x.threadOf(v.Session, from, messagesPerPage); err != nil {
		return nil, err
	}
	if v.AgentName != "" {
		v.Answerer = v.AgentName
	}
	if v.Parent != nil {
		v.Asker = "Parent"
	}
	v.chained(x, v.Session, v.Answerer)
	if from > 1 {
		v.Earlier = "/ui/sessions/" + id + "?from=" + strconv.Itoa(max(1, from-messagesPerPage))
	}
	topics := []string{"session:" + id}
	if v.State == agent.Working {
		topics = append(topics, "sessions") // a sub-agent may begin
	}
	if v.Latest == "" {
		kids, err := v.readChildren(x)
		if err != nil {
			return nil, err
		}
		topics = append(topics, kids...)
	}
	if v.Card, err = x.sessionQuestion(v.Session); err != nil {
		return nil, err
	}
	v.Command = x.commandShown()
	v.CanPause = v.State == agent.Working || v.State == agent.Waiting
	v.CanResume = v.State == agent.Paused
	v.CanCancel = v.CanPause || v.CanResume
	v.Ended = v.State == agent.Ended
	p := &page{Title: v.Name(), Nav: "Sessions", Topics: topics, Session: id, Still: v.Replayed != nil, Body: v}
	if v.Alert != nil {
		p.Status = v.Alert.Status
	}
	return p, nil
}

// readChildren reads the sub-agents with their last messages, and gives their topics.
func (v *sessionView) readChildren(x *exchange) (topics []string, err error) {
	var list httpapi.SessionList
	if err := x.api.get("/v1/sessions", url.Values{"parent_id": {v.ID.String()}, "limit": {strconv.Itoa(maxSubThreads)}}, &list); err != nil {
		return nil, err
	}
	v.MoreKids = list.Next != ""
	for i := len(list.Items) - 1; i >= 0; i-- { // oldest first, as the conversation
		one := childThread{sessionLine: sessionLine{list.Items[i], "", x.now}}
		if one.thread, err = x.threadOf(one.Session, one.Last-subThreadSize+1, subThreadSize); err != nil {
			return nil, err
		}
		one.Asker, one.Answerer, one.Prefix = v.Answerer, one.Name(), one.ID.String()+"-"
		v.Children = append(v.Children, one)
		topics = append(topics, "session:"+one.ID.String())
	}
	return topics, nil
}

// sessionQuestion finds a question that a session waits for; nil: it waits for none, or the
// grant may not read questions.
func (x *exchange) sessionQuestion(s agent.Session) (*cardView, error) {
	if s.Run == "" {
		return nil, nil //nolint:nilnil // it waits for none
	}
	waiting, _, err := x.questions(url.Values{"limit": {"100"}})
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // the conversation is still right without
	}
	for _, q := range waiting {
		if q.RunID.String() == s.Run {
			v, err := x.cardOf(q.ID.String())
			v.Within = s.ID.String()
			return &v, err
		}
	}
	return nil, nil //nolint:nilnil // it waits for none
}

// commandShown reads the result of the slash command that the address names.
func (x *exchange) commandShown() *commandView {
	query := x.r.URL.Query()
	if topic := query.Get("help"); topic != "" {
		var out httpapi.CommandResult
		if topic == "all" {
			topic = ""
		}
		if err := x.api.get("/v1/commands/help", url.Values{"topic": {topic}}, &out); err != nil {
			return nil
		}
		return &commandView{Help: out.Help}
	}
	id, err := uuid.Parse(query.Get("command"))
	if err != nil {
		return nil
	}
	var run ledger.Run
	var step report.Step
	if x.api.get("/v1/runs/"+id.String(), nil, &run) != nil || x.api.get("/v1/runs/"+id.String()+"/calls/1", nil, &step) != nil {
		return nil
	}
	v := commandView{Run: runLine{run, x.now}, Call: newCallLine(id.String(), run.Started, step), Out: valuesOf(step.Output.JSON)}
	return &v
}

// inSession carries out the action of a form of a session.
func (s *Server) inSession(x *exchange) (string, *page, error) {
	id, form := x.r.PathValue("id"), x.r.PostForm
	path := "/v1/sessions/" + url.PathEscape(id)
	var out agent.Session
	var err error
	switch do := form.Get("do"); do {
	case "say":
		if text := messageOf(form); text != "" {
			return s.say(x, id, text)
		}
		err = fault.New(fault.Usage, "the message is empty")
	case "pause", "resume", "cancel":
		err = x.api.post(path+"/"+do, nil, &out)
	case "replay":
		var res replays.SessionSummary
		if err = x.api.post(path+"/replay", nil, &res); err == nil {
			p, err := s.sessionPage(x, id, sessionView{Replayed: &res})
			return "", p, err
		}
	case "fork":
		var upTo int
		if upTo, err = strconv.Atoi(form.Get("up_to")); err != nil || upTo < 0 {
			err = fault.New(fault.Usage, "%.20q is not the number of a message", form.Get("up_to"))
		} else {
			err = x.api.post(path+"/fork", map[string]int{"up_to": upTo}, &out)
		}
		id = out.ID.String()
	case "end":
		err = x.api.do(http.MethodDelete, path, nil, nil, nil, nil)
		if err == nil {
			return "/ui/sessions", nil, nil
		}
	default:
		err = fault.New(fault.Usage, "the form names no action").WithHint("use one of its buttons")
	}
	if err != nil {
		return s.notDone(x, x.r.PathValue("id"), err, "")
	}
	return "/ui/sessions/" + url.PathEscape(id), nil, nil
}

// notDone shows a session with the reason why something in it could not be done.
func (s *Server) notDone(x *exchange, id string, err error, typed string) (string, *page, error) {
	if signedOut(err) {
		return "", nil, err
	}
	p, perr := s.sessionPage(x, id, sessionView{Alert: problemOf(err), Typed: typed})
	return "", p, perr
}

// say sends a message, or carries out a slash command.
func (s *Server) say(x *exchange, id, text string) (string, *page, error) {
	here := "/ui/sessions/" + url.PathEscape(id)
	if !chat.IsCommand(text) {
		header := http.Header{"Prefer": {"respond-async"}}
		if err := x.api.do(http.MethodPost, "/v1/sessions/"+url.PathEscape(id)+"/messages", nil, header, map[string]string{"content": text}, nil); err != nil {
			return s.notDone(x, id, err, text)
		}
		return here + "#end", nil, nil
	}
	var out httpapi.CommandResult
	err := x.api.post("/v1/commands", map[string]string{"line": text, "session_id": id}, &out)
	if p := (*httpapi.Problem)(nil); errors.As(err, &p) && p.Run != "" { // the call was refused: its page says why
		return here + "?command=" + url.QueryEscape(p.Run) + "#command", nil, nil
	}
	switch {
	case err != nil:
		return s.notDone(x, id, err, text)
	case out.Call != nil:
		return here + "?command=" + url.QueryEscape(out.Call.Run) + "#command", nil, nil
	case out.Topic == "":
		return here + "?help=all#command", nil, nil
	}
	return here + "?help=" + url.QueryEscape(out.Topic) + "#command", nil, nil
}
