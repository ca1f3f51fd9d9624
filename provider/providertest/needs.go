package providertest

import "github.com/bridle-dev/bridle/provider"

// The needs of properties, by the field of Config that fills them.

func needSlow() need {
	return need{"Slow", func(c *Config) bool { return c.Slow.Op != "" }}
}

func needRefuse() need {
	return need{"Refuse", func(c *Config) bool { return c.Refuse.Op != "" }}
}

func needBroken() need {
	return need{"Broken", func(c *Config) bool { return len(c.Broken) > 0 }}
}

func needOnce() need {
	return need{"Once", func(c *Config) bool { return c.Once.Op != "" }}
}

func needAsk() need {
	return need{"Ask", func(c *Config) bool { return c.Ask.Op != "" }}
}

func needTask() need {
	return need{"Task", func(c *Config) bool { return c.Task.Op != "" }}
}

func needActed() need { return need{"Acted", func(c *Config) bool { return c.Acted != nil }} }
func needEmit() need  { return need{"Emit", func(c *Config) bool { return c.Emit != nil }} }
func needKill() need  { return need{"Kill", func(c *Config) bool { return c.Kill != nil }} }

func needSilence() need {
	return need{"Silence", func(c *Config) bool { return c.Silence != nil }}
}

func needChange() need {
	return need{"Change", func(c *Config) bool { return c.Change != nil }}
}

func needSecret() need {
	return need{"Secret", func(c *Config) bool { return c.Secret != "" }}
}

func needAbility(name string, has func(Abilities) bool) need {
	return need{"Abilities." + name, func(c *Config) bool { return has(c.Abilities) }}
}

func needReads() need {
	return needAbility("Reads", func(a Abilities) bool { return a.Reads })
}

func needEvents() need {
	return needAbility("Events", func(a Abilities) bool { return a.Events })
}

func needTasks() need {
	return needAbility("Tasks", func(a Abilities) bool { return a.Tasks })
}

func needWatch() need {
	return needAbility("Watch", func(a Abilities) bool { return a.Watch })
}

func needReset() need {
	return needAbility("Reset", func(a Abilities) bool { return a.Reset })
}

func needProvision() need {
	return needAbility("Provision", func(a Abilities) bool { return a.Provision })
}

func needReattach() need {
	return needAbility("Reattach", func(a Abilities) bool { return a.Reattach && a.Provision })
}

func needDetach() need {
	return needAbility("Detach", func(a Abilities) bool { return a.Detach && a.Reattach && a.Provision })
}

// ability returns what was declared, or ends the subtest.
func ability[A any](s *session, c provider.Conn) A {
	s.Helper()
	a, ok := provider.Ability[A](c)
	if !ok {
		s.Fatalf("the connection does not implement the declared ability %T", (*A)(nil))
	}
	return a
}
