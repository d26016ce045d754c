package plan_test

import (
	"fmt"

	"github.com/remitrun/remit/internal/call/plan"
)

func ExampleParse() {
	p, err := plan.Parse("hello.yaml", []byte(`
inputs:
  who: {required: true}
steps:
  - tool: fs.write
    args: {path: hello.txt, text: "Hello, ${{ inputs.who }}"}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	inputs, err := p.Inputs(map[string]string{"who": "${{ world }}"})
	if err != nil {
		fmt.Println(err)
		return
	}
	args, err := p.Steps[0].Resolve(world{inputs: inputs})
	fmt.Println(args["text"], err)

	_, err = plan.Parse("typo.yaml", []byte("steps:\n  - tool: fs.read\n    agrs: {path: a}\n"))
	fmt.Println(err)
	// Output:
	// Hello, ${{ world }} <nil>
	// E3001 typo.yaml:3:5: steps[0].agrs: unknown key "agrs" (did you mean "args"?)
}
