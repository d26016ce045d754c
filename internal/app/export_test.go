package app

import (
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/servers"
)

// ToolMemory is what a process with this home remembers of tools.
func ToolMemory(dir string) catalog.Memory {
	return servers.Memory(&home.Home{Config: home.Config{Dir: dir}})
}
