// Package peers finds the real servers and libraries that tests talk to. They are npm
// packages, pinned in package.json beside this file and installed by
//
//	make peers
//
// A test that needs one that is missing is skipped, or fails where the
// environment variable BRIDLE_PEERS is "required".
package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// The packages, by their names in the npm registry.
const (
	Aimock     = "@copilotkit/aimock"
	Everything = "@modelcontextprotocol/server-everything"
	Filesystem = "@modelcontextprotocol/server-filesystem"
	Memory     = "@modelcontextprotocol/server-memory"
	Playwright = "@playwright/mcp"

	// StandardWebhooks and Svix sign and verify webhooks. Newer versions of svix
	// hand on what standardwebhooks exports; the pinned one has code of its own.
	StandardWebhooks = "standardwebhooks"
	Svix             = "svix"
)

// Node returns the command line of the script entry of an installed package,
// as in Node(t, peers.Everything, "dist/index.js").
func Node(t testing.TB, pkg, entry string) []string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, "node is not installed; install Node 20 or newer")
	}
	script := filepath.Join(dir(), "node_modules", filepath.FromSlash(pkg), filepath.FromSlash(entry))
	if _, err := os.Stat(script); err != nil {
		missing(t, pkg+" is not installed; run: make peers")
	}
	return []string{node, script}
}

// Chromium returns the path of the browser that the Playwright server drives.
func Chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "Chromium is not installed; run: apt-get install chromium")
	return ""
}

// missing ends the test: skipped on a developer's machine, failed where the
// peers are required.
func missing(t testing.TB, remedy string) {
	t.Helper()
	if os.Getenv("BRIDLE_PEERS") == "required" {
		t.Fatal(remedy)
	}
	t.Skip(remedy)
}

// dir is the folder of this file in the source tree; tests run from there.
func dir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}
