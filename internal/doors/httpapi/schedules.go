package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/queue"
)

// NewSchedule describes a schedule that a client makes: a plan, and when it is queued.
type NewSchedule struct {
	Name      string                     `json:"name" maxLength:"63" example:"nightly" doc:"Small letters, digits, dots, hyphens and underscores; no other schedule has it"`
	Cron      string                     `json:"cron" maxLength:"200" example:"30 6 * * 1-5" doc:"Minute, hour, day, month and weekday"`
	Zone      string                     `json:"zone,omitempty" maxLength:"100" example:"Europe/Berlin" doc:"Time zone of cron; default UTC"`
	Plan      string                     `json:"plan,omitempty" doc:"The plan's source, YAML or JSON; missing: that of the frozen plan"`
	Inputs    map[string]json.RawMessage `json:"inputs,omitempty" nullable:"false" doc:"Values of the plan's inputs"`
	Session   string                     `json:"session_id,omitempty" maxLength:"100" doc:"Of an agent's session: it is sent content, and there is no plan. Needs sessions.write too"`
	Content   string                     `json:"content,omitempty" maxLength:"1000000" doc:"Of the message" example:"What is new today?"`
	Changeset bool                       `json:"changeset,omitempty" doc:"Hold writes until they are applied"`
	Priority  int                        `json:"priority,omitempty" minimum:"1" maximum:"4" doc:"Of its runs: 1 is started first; default 2"`
	Limits    []store.Slot               `json:"limits,omitempty" nullable:"false" maxItems:"20" doc:"Of its runs, as those of a queued run"`
	CallMode
}

// SchedulePatch changes a schedule.
type SchedulePatch struct {
	Cron     string `json:"cron,omitempty" maxLength:"200"`
	Zone     string `json:"zone,omitempty" maxLength:"100"`
	Priority int    `json:"priority,omitempty" minimum:"1" maximum:"4"`
	Paused   *bool  `json:"paused,omitempty" doc:"Paused, it queues no runs"`
}

// apply changes the fields that the patch names.
func (p SchedulePatch) apply(c *store.Schedule) {
	c.Cron, c.Zone, c.Priority = cmp.Or(p.Cron, c.Cron), cmp.Or(p.Zone, c.Zone), cmp.Or(p.Priority, c.Priority)
	if p.Paused != nil {
		c.Paused = *p.Paused
	}
}

// ScheduleList is a list of schedules.
type ScheduleList struct {
	Items []store.Schedule `json:"items"`
}

// ScheduleRuns is a schedule with the runs that it queued last.
type ScheduleRuns struct {
	store.Schedule
	Runs []store.QueuedRun `json:"runs" doc:"That it queued last, newest first"`
}

// lastRuns is how many runs of a schedule are shown.
const lastRuns = 10

// SchedulePath names a schedule.
type SchedulePath struct {
	ID string `path:"schedule_id" maxLength:"100" example:"019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44"`
}

type scheduleIn struct {
	asked
	SchedulePath
}

type scheduleAnswer struct {
	Location string `header:"Location"`
	Body     store.Schedule
}

var exampleSchedule = map[string]any{"schedule_id": sampleSession, "name": "nightly", "version": 1, "cron": "30 6 * * 1-5", "zone": "Europe/Berlin", "next_at": "2026-11-23T05:30:00Z",
	"last_at": "2026-11-20T05:30:00Z", "principal": "user:ann", "workspace": "/home/ann/project", "priority": 2, "by": "user:ann", "saved_at": "2026-11-01T12:00:00Z"}

// schedule finds a schedule that the caller may use.
func (s *Server) schedule(ctx context.Context, in *asked, id string) (store.Schedule, error) {
	find := func(ctx context.Context, id string) (store.Schedule, error) {
		all, err := s.o.Queue.Schedules(ctx)
		if err != nil {
			return store.Schedule{}, err
		}
		i := slices.IndexFunc(all, func(c store.Schedule) bool { return c.ID.String() == id })
		if i < 0 {
			return store.Schedule{}, missing(fault.NotFound, "schedule", id)
		}
		return all[i], nil
	}
	return reachable(ctx, fault.NotFound, "schedule", id, find, func(c store.Schedule) (bool, error) { return s.reachesGrant(ctx, in, c.Grant.String()) })
}

func (s *Server) schedules() {
	type list struct{ asked }
	route(s, operation{
		id: "listSchedules", method: http.MethodGet, path: "/v1/schedules", tag: "queue", action: "runs.read", summary: "List schedules",
		text:   "Schedules made under the caller's grant, or under grants that derive from it, by name.",
		answer: map[string]any{"items": []any{exampleSchedule}},
	}, func(ctx context.Context, in *list) (*struct{ Body ScheduleList }, error) {
		out := ScheduleList{Items: []store.Schedule{}}
		all, err := s.o.Queue.Schedules(ctx)
		for _, c := range all {
			ok, kerr := s.reachesGrant(ctx, &in.asked, c.Grant.String())
			if kerr != nil {
				return nil, kerr
			}
			if ok {
				out.Items = append(out.Items, c)
			}
		}
		return &struct{ Body ScheduleList }{out}, err
	})
	route(s, operation{
		id: "getSchedule", method: http.MethodGet, path: "/v1/schedules/{schedule_id}", tag: "queue", action: "runs.read", summary: "Get a schedule with its last runs",
		errors: []int{404}, answer: withRuns(exampleSchedule),
	}, func(ctx context.Context, in *scheduleIn) (*struct{ Body ScheduleRuns }, error) {
		c, err := s.schedule(ctx, &in.asked, in.ID)
		if err != nil {
			return nil, err
		}
		runs, err := s.o.Queue.List(ctx, store.QueueFilter{Schedule: &c, Limit: lastRuns})
		return &struct{ Body ScheduleRuns }{ScheduleRuns{c, append([]store.QueuedRun{}, runs...)}}, err
	})
	type add struct {
		asked
		Body NewSchedule
	}
	route(s, operation{
		id: "createSchedule", method: http.MethodPost, path: "/v1/schedules", tag: "queue", action: "tools.invoke", status: http.StatusCreated, summary: "Make a schedule of a plan, or of a message to an agent",
		text:    "Each of its runs has the authority that the caller's grant has when the run starts.",
		errors:  []int{409},
		request: map[string]any{"name": "nightly", "cron": "30 6 * * 1-5", "zone": "Europe/Berlin", "plan": "name: nightly\nsteps: [{tool: time.now}]\n"}, answer: exampleSchedule,
	}, func(ctx context.Context, in *add) (*scheduleAnswer, error) {
		if in.who.Token == "" { // without a grant it would be one of the person at this machine
			return nil, fault.New(fault.Internal, "the caller has no grant")
		}
		q := in.Body
		n, o := queue.NewSchedule{Name: q.Name, Cron: q.Cron, Zone: q.Zone, By: in.who.Name}, queue.Options{Priority: q.Priority, Limits: q.Limits}
		if q.Session != "" || q.Content != "" {
			c, err := s.scheduleMessage(ctx, &in.asked, q, n, o)
			return &scheduleAnswer{"/v1/schedules/" + c.ID.String(), c}, err
		}
		c, err := s.o.Queue.SubmitSchedule(ctx, n, queue.Submission{
			Grant: in.who.Presented(), Plan: q.Plan, Frozen: q.Frozen, Inputs: q.Inputs, Changeset: q.Changeset, Planning: q.Planning, Options: o})
		return &scheduleAnswer{"/v1/schedules/" + c.ID.String(), c}, err
	})
}

// scheduleMessage makes a schedule that sends an agent a message.
func (s *Server) scheduleMessage(ctx context.Context, in *asked, q NewSchedule, n queue.NewSchedule, o queue.Options) (store.Schedule, error) {
	if q.Plan != "" || len(q.Frozen) > 0 || len(q.Inputs) > 0 || q.Changeset || q.Planning {
		return store.Schedule{}, fault.New(fault.ArgsInvalid, "a schedule has a plan or a message, not both").In("body.session_id")
	}
	if err := in.who.May("sessions.write"); err != nil {
		return store.Schedule{}, err
	}
	to, err := s.session(ctx, in, q.Session)
	if err != nil {
		return store.Schedule{}, err
	}
	return s.o.Queue.ScheduleMessage(ctx, n, queue.Message{Grant: in.who.Presented(), Session: to.ID, Name: "message", Text: q.Content, Options: o})
}

// withRuns is an example of a schedule with its runs.
func withRuns(schedule map[string]any) map[string]any {
	out := map[string]any{"runs": []any{exampleQueued}}
	for name, v := range schedule {
		out[name] = v
	}
	return out
}

func (s *Server) changeSchedules() {
	change := func(ctx context.Context, in *asked, id string, do func(*store.Schedule)) (store.Schedule, error) {
		if _, err := s.schedule(ctx, in, id); err != nil {
			return store.Schedule{}, err
		}
		return s.o.Queue.ChangeSchedule(ctx, id, in.who.Name, do)
	}
	type patch struct {
		asked
		SchedulePath
		Body SchedulePatch
	}
	route(s, operation{
		id: "updateSchedule", method: http.MethodPatch, path: "/v1/schedules/{schedule_id}", tag: "queue", action: "tools.invoke", summary: "Change, pause or resume a schedule",
		text: "Fields left out stay unchanged. Its plan and its authority cannot be changed: make another schedule.", errors: []int{404, 409},
		request: map[string]any{"cron": "0 7 * * *", "paused": false}, answer: exampleSchedule,
	}, func(ctx context.Context, in *patch) (*struct{ Body store.Schedule }, error) {
		c, err := change(ctx, &in.asked, in.ID, in.Body.apply)
		return &struct{ Body store.Schedule }{c}, err
	})
	route(s, operation{
		id: "deleteSchedule", method: http.MethodDelete, path: "/v1/schedules/{schedule_id}", tag: "queue", action: "tools.invoke", status: http.StatusNoContent, summary: "Remove a schedule",
		text: "Its runs stay.", errors: []int{404, 409},
	}, func(ctx context.Context, in *scheduleIn) (*struct{}, error) {
		_, err := change(ctx, &in.asked, in.ID, func(c *store.Schedule) { c.Deleted = true })
		return nil, err
	})
	route(s, operation{
		id: "runSchedule", method: http.MethodPost, path: "/v1/schedules/{schedule_id}/run", tag: "queue", action: "tools.invoke", summary: "Queue a run of a schedule now",
		text:   "It has the authority of the schedule, not of the caller. While a run of the schedule waits or runs, the new one is refused, and says so. The next time stays as it is.",
		errors: []int{404, 409}, answer: exampleQueued,
	}, func(ctx context.Context, in *scheduleIn) (*struct{ Body store.QueuedRun }, error) {
		if _, err := s.schedule(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		run, err := s.o.Queue.RunSchedule(ctx, in.ID)
		return &struct{ Body store.QueuedRun }{run}, whenFull(err)
	})
}
