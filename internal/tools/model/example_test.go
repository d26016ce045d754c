package model_test

import (
	"fmt"

	"github.com/remitrun/remit/internal/tools/model"
	"github.com/remitrun/remit/internal/tools/model/scripted"
)

func ExampleRegistry() {
	r := &model.Registry{Providers: []model.Provider{scripted.New()}, Default: "scripted:answers.yaml"}
	p, name, err := r.Find(r.Default)
	fmt.Println(p.Name(), name, err)
	_, _, err = r.Find("openai/gpt-5")
	fmt.Println(err)
	// Output:
	// scripted answers.yaml <nil>
	// E8008 no provider is called "openai" (there are scripted; others are set in models.providers of config.yaml)
}
