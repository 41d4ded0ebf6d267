package preflight

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMeasure(t *testing.T) {
	s := newSite(t)
	s.binary = world.killable
	trace := filepath.Join(s.dir, "trace")
	p := s.start([]string{"HOLDFAST_TRACE=" + trace}, s.preflightArgs("--retain-helper=false")...)
	e := s.wait(p)
	t.Log(e.code, p.cmd.ProcessState.UserTime(), p.cmd.ProcessState.SystemTime())
	content, _ := os.ReadFile(trace)
	t.Logf("%s", content)
}
