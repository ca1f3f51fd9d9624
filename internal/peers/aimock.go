package peers

import (
	"bufio"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// StartAimock runs a fake of the model vendors' APIs, which answers from a file
// of fixtures, until the test ends. It returns where it listens, as in
// "http://127.0.0.1:4010", without a path. More arguments are aimock's own.
func StartAimock(t testing.TB, fixtures string, args ...string) string {
	t.Helper()
	line := append(Node(t, Aimock, "dist/cli.js"), "--port", "0", "--strict", "--fixtures", fixtures)
	line = append(line, args...)
	cmd := exec.Command(line[0], line[1:]...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	urls, reading := make(chan string, 1), sync.WaitGroup{}
	reading.Go(func() { listening(bufio.NewScanner(stdout), urls) })
	t.Cleanup(func() {
		cmd.Process.Kill()
		reading.Wait()
		cmd.Wait()
	})
	url, ok := <-urls
	if !ok {
		cmd.Wait()
		t.Fatalf("aimock ended before it listened:\n%s", stderr.String())
	}
	return url
}

// listening finds the address that aimock prints, and reads on so that its pipe
// never fills.
func listening(out *bufio.Scanner, urls chan<- string) {
	defer close(urls)
	address := regexp.MustCompile(`listening on (http://\S+)`)
	for out.Scan() {
		if m := address.FindStringSubmatch(out.Text()); m != nil {
			select {
			case urls <- m[1]:
			default:
			}
		}
	}
}
