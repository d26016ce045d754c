package tool

import "context"

// Progress tells how far a call has come, in units of its tool's choice.
type Progress struct {
	Done    float64
	Total   float64 // 0: not known
	Message string  // for people; it comes from the tool and may be untrusted
}

type progressKey struct{}

// WithProgress gives a context by which a tool can tell how far it has come.
// What is told is shown to the caller, and nothing is decided by it. tell may be
// called from several goroutines.
func WithProgress(ctx context.Context, tell func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// WantsProgress reports whether anybody is told.
func WantsProgress(ctx context.Context) bool {
	_, ok := ctx.Value(progressKey{}).(func(Progress))
	return ok
}

// TellProgress tells how far a call has come, if somebody wants to know.
func TellProgress(ctx context.Context, p Progress) {
	if tell, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		tell(p)
	}
}
