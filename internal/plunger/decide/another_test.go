package decide_test

import (
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// B Names, B9.1: a stuck release that is edited so that it names another existing one,
// and is deleted then, must not have that other one uninstalled: helm-controller's own
// account of its last attempt is all that still tells which one it was.
func TestB9_1_WhatWasStuckUnderAnotherNameIsLeftAlone(t *testing.T) {
	named := func(in *decide.Input) { in.Release.Spec.ReleaseName = "bar" }
	targeted := func(in *decide.Input) { in.Release.Spec.TargetNamespace, in.Release.Spec.ReleaseName = "other", "app" }
	refusedOnce := func(in *decide.Input) {
		in.Release.Status.Released = decide.Condition{Status: "False", Message: trigger, ObservedGeneration: 4}
	}
	forgotten := []edit{noHistory, refusedOnce, stored("7:deployed")}
	check(t, []row{
		{"B Names: another name, deleted", gone(append(forgotten, noStorageNamespace, named)...), want{decide.Wait, decide.StorageRefused}},
		{"B Names: another namespace, deleted", gone(append(forgotten, targeted)...), want{decide.Wait, decide.StorageRefused}},
		{"B Names: another name, deleted under our suspension: lifted, and nothing filled", base(append(forgotten, fenced, deleted, named, suspendedBy(ours()))...), want{verb: decide.Lift}},
		{"B Names: another name, live: the fence stays and nothing is read", base(append(forgotten, fenced, named)...), want{verb: decide.Wait}},
		{"B5.7 set back: the history is filled", gone(append(forgotten, noStorageNamespace)...), want{verb: decide.FillStatus}},
	})
	got := decide.Next(gone(append(forgotten, named)...))
	if message := got.Events[0].Message; !strings.Contains(message, "set the specification back") {
		t.Errorf("B Names: the message does not say what to do: %s", message)
	}
}

// B Names: what helm-controller says of its last attempt is read where nothing is
// remembered, from the beginning of its message, and means nothing in another form.
func TestB9_1_TheLastAttemptNamesTheRelease(t *testing.T) {
	long := strings.Repeat("x", 60)
	named := func(name string) edit { return func(in *decide.Input) { in.Release.Spec.ReleaseName = name } }
	says := func(released, ready string) edit {
		return func(in *decide.Input) {
			in.Release.Status.Released.Message, in.Release.Status.Ready.Message = released, ready
		}
	}
	const here, there = "Helm upgrade failed for release ns/app with chart app@1: boom", "Helm upgrade failed for release ns/other with chart app@1: boom"
	for name, c := range map[string]struct {
		in   decide.Input
		want bool
	}{
		"the same":                          {base(noHistory, says(here, "")), false},
		"another name":                      {base(noHistory, says(there, "")), true},
		"another namespace":                 {base(noHistory, says("Helm upgrade failed for release far/app with chart app@1: boom", "")), true},
		"an install of another":             {base(noHistory, says("Helm install failed for release ns/other with chart app@1: boom", "")), true},
		"only Ready tells":                  {base(noHistory, says("", there)), true},
		"Released goes first":               {base(noHistory, says(here, there)), false},
		"neither tells":                     {base(noHistory, says("boom", "boom")), false},
		"remembered again":                  {base(says(there, there)), false},
		"not at its beginning":              {base(noHistory, says("a hook: "+there, "")), false},
		"without a chart":                   {base(noHistory, says("Helm upgrade failed for release ns/other", "")), false},
		"a name without its namespace":      {base(noHistory, says("Helm upgrade failed for release other with chart app@1", "")), false},
		"what an uninstall says":            {base(noHistory, says("Helm uninstall failed for release ns/app.v1 with chart app@1: boom", "")), false},
		"asked for by a name that is long":  {base(noHistory, named(long), says("Helm upgrade failed for release ns/"+long+" with chart app@1: boom", "")), false},
		"and by the name that it is cut to": {base(noHistory, named(long), says("Helm upgrade failed for release ns/"+base(named(long)).Release.ReleaseName()+" with chart app@1", "")), false},
	} {
		if got := c.in.Release.Disagrees(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
