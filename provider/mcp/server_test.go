package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// serverArg marks this test binary as a server; the mode follows.
const serverArg = "bridle-test-server:"

// serverCommand is the command line of this binary as a server.
func serverCommand(mode string, args ...string) []string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{exe, serverArg + mode}, args...)
}

// serve is a server in one of its moods, good or bad.
func serve(mode string) {
	switch mode {
	case "good":
		runGood(os.Stdout)
	case "asking":
		s := goodServer(nil, os.Args[2])
		addQuestions(s)
		runServer(s, os.Stdin, os.Stdout)
	case "banner":
		fmt.Println("starting up, version 1.2.3")
		fmt.Println(`{"level":"info","msg":"a log line that is JSON"}`)
		runGood(os.Stdout)
	case "deaf": // ignores end of input and SIGTERM
		signal.Ignore(syscall.SIGTERM)
		runGood(os.Stdout)
		select {}
	case "stubborn": // ignores end of input only
		runGood(os.Stdout)
		time.Sleep(time.Hour) //allow:sleep doing nothing is what this server does
	case "grandchild": // leaves a process behind that holds the pipes
		sleeper := exec.Command("sleep", "600")
		sleeper.Stdout, sleeper.Stderr = os.Stdout, os.Stderr
		if err := sleeper.Start(); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "grandchild", sleeper.Process.Pid)
		runGood(os.Stdout)
	case "silent": // reads, never answers
		io.Copy(io.Discard, os.Stdin)
	case "unreading": // never reads its input
		time.Sleep(time.Hour) //allow:sleep doing nothing is what this server does
	case "quitter": // knows only initialize and ends on anything else first
		runQuitter()
	case "fault":
		runFault(os.Args[2], os.Args[3])
	case "host":
		runHost()
	case "announcer":
		runAnnouncer(os.Args[2], os.Args[3])
	case "mute": // says nothing to anything before initialize
		runMute()
	case "blabber":
		fmt.Fprintln(os.Stderr, "my token is", os.Getenv("TOKEN"))
		fmt.Println("token:", os.Getenv("TOKEN"))
		syscall.Exit(1)
	case "stack": // prints what runtimes print below the reason
		fmt.Fprintln(os.Stderr, "  throw err;\nError: cannot find module 'x'\n    at load (loader:1)\n\nNode.js v20.1.0")
		os.Exit(1)
	case "broken":
		fmt.Fprintln(os.Stderr, "cannot find module 'left-pad'")
		syscall.Exit(3)
	case "kept":
		runKept(os.Args[2])
	case "hasty":
		runHasty()
	case "raw":
		runRaw()
	default:
		panic("unknown mode " + mode)
	}
}

// rawTool adds a tool whose arguments arrive and whose result leaves as they are.
func rawTool(s *sdk.Server, name string, h func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error)) {
	s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, h)
}

func text(format string, args ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// goodServer is a server that does as it should, over any transport, in the
// given versions of the protocol, or all. Calls that nobody cancelled end when
// over is closed.
func goodServer(over <-chan struct{}, versions ...string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "good", Version: "1"},
		&sdk.ServerOptions{PageSize: 100, SupportedProtocolVersions: versions})
	rawTool(s, "echo", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{
			Content:           []sdk.Content{&sdk.TextContent{Text: string(r.Params.Arguments)}},
			StructuredContent: r.Params.Arguments,
		}, nil
	})
	rawTool(s, "meta", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: r.Params.Meta}, nil
	})
	rawTool(s, "env", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: map[string]any{"env": os.Environ()}}, nil
	})
	rawTool(s, "fail", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := text("\x1b[31mno\x1b[0m such file\x07")
		r.IsError = true
		return r, nil
	})
	rawTool(s, "guarded", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := text("wants an approval")
		r.IsError = true
		r.Meta = sdk.Meta{"tools.noetic/guarded": map[string]any{"target": "#all", "reason": "reaches everyone"}}
		return r, nil
	})
	rawTool(s, "reborn", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := text("new")
		r.Meta = sdk.Meta{"tools.noetic/identity": map[string]any{"surface": "web", "instance": "two"}}
		return r, nil
	})
	rawTool(s, "blocks", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "hello"},
			&sdk.ImageContent{Data: []byte{1, 2, 3}, MIMEType: "image/png"},
			&sdk.AudioContent{Data: []byte{4}, MIMEType: "audio/wav"},
			&sdk.ResourceLink{URI: "test://doc", Name: "doc", MIMEType: "text/plain"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "test://doc", MIMEType: "text/plain", Text: "inside"}},
		}}, nil
	})
	rawTool(s, "sure", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if asks := r.ClientCapabilities(); asks == nil || asks.Elicitation == nil || r.Params.InputResponses != nil {
			return text("done"), nil
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{Message: "Sure?"}}}, nil
	})
	var cancelled atomic.Int32
	rawTool(s, "wait", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1})
		}
		select {
		case <-ctx.Done():
			cancelled.Add(1)
		case <-over:
		}
		return nil, context.Canceled
	})
	rawTool(s, "tick", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var args struct{ Times, Pause int }
		json.Unmarshal(r.Params.Arguments, &args)
		for i := range args.Times {
			r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)})
			select {
			case <-time.After(time.Duration(args.Pause) * time.Millisecond):
			case <-ctx.Done():
				cancelled.Add(1)
				return nil, ctx.Err()
			}
		}
		return text("done"), nil
	})
	rawTool(s, "cancelled", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: map[string]any{"n": cancelled.Load()}}, nil
	})
	rawTool(s, "big", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var args struct{ Size int }
		json.Unmarshal(r.Params.Arguments, &args)
		return text("%s", strings.Repeat("x", args.Size)), nil
	})
	rawTool(s, "steps", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range 20 {
			r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 20, Message: strconv.Itoa(i),
			})
		}
		return text("done"), nil
	})
	rawTool(s, "die", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		syscall.Exit(7)
		return nil, nil
	})
	rawTool(s, "grow", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		growServer(s)
		return text("grown"), nil
	})
	s.AddResource(&sdk.Resource{URI: "test://config", Name: "config", MIMEType: "application/json"},
		func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
				{URI: "test://config", MIMEType: "application/json", Text: `{"n":9007199254740993}`},
			}}, nil
		})
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "test://users/{id}", Name: "user"},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "user at " + r.Params.URI}}}, nil
		})
	return s
}

// growServer changes the list of tools: one more, one less.
func growServer(s *sdk.Server) {
	rawTool(s, "grown", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("hi"), nil })
	s.RemoveTools("fail")
}

// note tells f about every tools/call before it is acted upon.
func note(f func(op string, args json.RawMessage)) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if p, ok := req.GetParams().(*sdk.CallToolParamsRaw); ok {
				f(p.Name, slices.Clone(p.Arguments))
			}
			return next(ctx, method, req)
		}
	}
}

func onSignal(s os.Signal, f func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, s)
	go func() {
		for range c {
			f()
		}
	}()
}

func runServer(s *sdk.Server, in io.Reader, out io.Writer) {
	s.Run(context.Background(), &sdk.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{out}})
}

func runGood(out io.Writer) { runServer(goodServer(nil), os.Stdin, out) }

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// runQuitter speaks initialize only, and ends when anything else comes first.
func runQuitter() {
	in := bufio.NewReader(os.Stdin)
	in.Peek(1) // waits for the first line
	first, _ := in.Peek(in.Buffered())
	if !strings.Contains(string(first), `"initialize"`) {
		syscall.Exit(1)
	}
	runServer(goodServer(nil), in, os.Stdout)
}

// runMute swallows what comes before initialize.
func runMute() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if strings.Contains(line, `"initialize"`) {
			runServer(goodServer(nil), io.MultiReader(strings.NewReader(line), in), os.Stdout)
			return
		}
	}
}

// runRaw answers with the lines of its further arguments: each is
// method=result, where $ID stands for the request's id. A result that starts
// with "!" is the whole line.
func runRaw() {
	answers := map[string][]string{}
	for _, arg := range os.Args[2:] {
		method, result, _ := strings.Cut(arg, "=")
		answers[method] = append(answers[method], result)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var req struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(in.Bytes(), &req) != nil || req.ID == nil {
			continue
		}
		list := answers[req.Method]
		if len(list) == 0 {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", req.ID)
			continue
		}
		answer := list[0]
		if len(list) > 1 {
			answers[req.Method] = slices.Clone(list[1:])
		}
		if whole, ok := strings.CutPrefix(answer, "!"); ok {
			fmt.Println(strings.ReplaceAll(whole, "$ID", string(req.ID)))
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, answer)
	}
}
