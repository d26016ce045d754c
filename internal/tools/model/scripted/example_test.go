package scripted_test

import (
	"context"
	"fmt"

	"github.com/remitrun/remit/internal/tools/model"
	"github.com/remitrun/remit/internal/tools/model/scripted"
)

func Example() {
	via := model.Reach{File: func(string, int64) ([]byte, error) {
		return []byte("- tool_calls: [{name: now}]\n- text: It is noon.\n"), nil
	}}
	r := model.Request{Model: "answers.yaml", Messages: []model.Message{{Role: model.User, Text: "What time is it?"}}}
	for range 2 {
		a, err := scripted.New().Chat(context.Background(), via, r, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(a.Stop, a.Message.Text, len(a.Message.Calls))
		r.Messages = append(r.Messages, a.Message)
		for _, c := range a.Message.Calls {
			r.Messages = append(r.Messages, model.Message{Role: model.ToolRole, CallID: c.ID, Text: "12:00"})
		}
	}
	// Output:
	// tool_calls  1
	// end It is noon. 0
}
