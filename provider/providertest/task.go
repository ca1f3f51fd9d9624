package providertest

import (
	"context"
	"errors"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

func taskCases() []testCase {
	tasks, task := needTasks(), needTask()
	return []testCase{
		{name: "Task/its id is told before it is awaited", needs: []need{tasks, task}, check: taskTold},
		{name: "Task/an id that could not be stored stops the wait", needs: []need{tasks, task}, check: taskNotStored},
		{name: "Task/another connection goes back to it", needs: []need{tasks, task}, check: taskAwaited},
		{name: "Task/an unknown one is refused", needs: []need{tasks}, check: taskUnknown},
		{name: "Task/cancelling ends the wait", needs: []need{tasks, task}, check: taskCancelled},
	}
}

func taskTold(ctx context.Context, s *session) {
	c := s.connect(ctx)
	req := s.request(s.cfg.Task)
	var told []provider.TaskID
	req.Task = func(id provider.TaskID) error {
		told = append(told, id)
		return nil
	}
	s.promptly(req.Op, func() {
		if _, err := s.call(ctx, c, req); err != nil {
			s.Errorf("%s: %v", req.Op, err)
		}
	})
	if len(told) != 1 || told[0] == "" {
		s.Errorf("%s: told the task ids %q, want one", req.Op, told)
	}
}

// errNotStored is what the kit's Task function fails with.
var errNotStored = errors.New("providertest: the task id was not stored")

// begin starts a task whose wait it stops, and returns the task's id.
func (s *session) begin(ctx context.Context, c provider.Conn) provider.TaskID {
	s.Helper()
	req := s.request(s.cfg.Task)
	var id provider.TaskID
	req.Task = func(told provider.TaskID) error {
		id = told
		return errNotStored
	}
	s.promptly(req.Op+" whose task id is not stored", func() {
		_, err := s.call(ctx, c, req)
		if w := word(err); w != fault.OutcomeUnknown {
			s.Errorf("%s: got %v, want an unknown outcome: the task goes on", req.Op, err)
		}
	})
	if id == "" {
		s.Fatalf("%s did not turn into a task", req.Op)
	}
	return id
}

func taskNotStored(ctx context.Context, s *session) {
	c := s.connect(ctx)
	s.settle(ctx, c, s.begin(ctx, c))
}

// settle waits for a task's end, whatever it is.
func (s *session) settle(ctx context.Context, c provider.Conn, id provider.TaskID) (*provider.CallResult, error) {
	s.Helper()
	var res *provider.CallResult
	var err error
	s.promptly("AwaitTask", func() { res, err = ability[provider.Tasker](s, c).AwaitTask(ctx, id) })
	return res, s.note(err)
}

func taskAwaited(ctx context.Context, s *session) {
	first := s.connect(ctx)
	id := s.begin(ctx, first)
	s.release(ctx, first)
	second := s.connect(ctx)
	for range 2 {
		res, err := s.settle(ctx, second, id)
		if err != nil || res == nil {
			s.Fatalf("AwaitTask on another connection: got %v, %v", res, err)
		}
		s.checkValue(s.cfg.Task.Op, res.Value, res.Content)
		spoil(res)
	}
}

func taskUnknown(ctx context.Context, s *session) {
	c := s.connect(ctx)
	const id = "providertest-no-such-task"
	if _, err := s.settle(ctx, c, id); word(err) != fault.OpFailed {
		s.Errorf("AwaitTask of an unknown task: got %v, want Refused", err)
	}
	if err := s.note(ability[provider.Tasker](s, c).CancelTask(ctx, id)); err == nil {
		s.Errorf("CancelTask of an unknown task succeeded")
	}
	s.works(ctx, c)
}

func taskCancelled(ctx context.Context, s *session) {
	c := s.connect(ctx)
	id := s.begin(ctx, c)
	s.promptly("CancelTask", func() {
		if err := s.note(ability[provider.Tasker](s, c).CancelTask(ctx, id)); err != nil && word(err) != fault.OpFailed {
			s.Errorf("CancelTask: %v", err)
		}
	})
	s.settle(ctx, c, id)
	s.works(ctx, c)
}
