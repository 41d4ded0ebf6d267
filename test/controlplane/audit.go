package controlplane

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// AuditRecord is one request that the API server has finished. Requests for health,
// version and discovery, and those of the API server to itself, are not recorded.
type AuditRecord struct {
	// AuditID is the request's Audit-ID header when the client set one.
	AuditID     string
	User        string
	UserAgent   string
	Verb        string
	RequestURI  string
	APIGroup    string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	// UID is the object's, where the request names it (a delete's precondition does not count).
	UID string
	// Code is the HTTP status of the answer.
	Code int
	// Received is when the request came in, Completed when it was answered.
	Received, Completed time.Time
	// Request and Response are the bodies, at a level that records them.
	Request, Response json.RawMessage
}

// AuditFilter selects records; an empty field selects all.
type AuditFilter struct {
	User, Verb, Resource, Subresource, Namespace, Name, AuditID string
	// Writes selects create, update, patch, delete and deletecollection.
	Writes bool
}

// event is the part of audit.k8s.io/v1 Event that is read.
type event struct {
	AuditID    string `json:"auditID"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		UID         string `json:"uid"`
		APIGroup    string `json:"apiGroup"`
	} `json:"objectRef"`
	Status struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received  time.Time       `json:"requestReceivedTimestamp"`
	Completed time.Time       `json:"stageTimestamp"`
	Request   json.RawMessage `json:"requestObject"`
	Response  json.RawMessage `json:"responseObject"`
}

// Audit returns the records so far, in the order in which the requests finished. The
// log is written before a request is answered, so the caller's own are in it; the
// exception is a watch, which finishes when it ends.
func (cp *ControlPlane) Audit() ([]AuditRecord, error) {
	file, err := os.Open(cp.auditLog())
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	var records []AuditRecord
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records, nil // what follows the last newline is still being written
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		var e event
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return nil, fmt.Errorf("decoding a line of the audit log: %w", err)
		}
		records = append(records, e.record())
	}
}

// AuditOf returns the records so far that the filter selects.
func (cp *ControlPlane) AuditOf(filter AuditFilter) ([]AuditRecord, error) {
	all, err := cp.Audit()
	if err != nil {
		return nil, err
	}
	var selected []AuditRecord
	for _, record := range all {
		if filter.Matches(record) {
			selected = append(selected, record)
		}
	}
	return selected, nil
}

// Matches says whether the filter selects a record.
func (f AuditFilter) Matches(r AuditRecord) bool {
	for _, pair := range [][2]string{
		{f.User, r.User}, {f.Verb, r.Verb}, {f.Resource, r.Resource}, {f.Subresource, r.Subresource},
		{f.Namespace, r.Namespace}, {f.Name, r.Name}, {f.AuditID, r.AuditID},
	} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return !f.Writes || r.IsWrite()
}

// IsWrite says whether the request asked for a change.
func (r AuditRecord) IsWrite() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

func (e event) record() AuditRecord {
	return AuditRecord{
		AuditID: e.AuditID, User: e.User.Username, UserAgent: e.UserAgent, Verb: e.Verb, RequestURI: e.RequestURI,
		APIGroup: e.Object.APIGroup, Resource: e.Object.Resource, Subresource: e.Object.Subresource,
		Namespace: e.Object.Namespace, Name: e.Object.Name, UID: e.Object.UID, Code: e.Status.Code,
		Received: e.Received, Completed: e.Completed, Request: e.Request, Response: e.Response,
	}
}

func (cp *ControlPlane) auditLog() string { return cp.path("audit.log") }

// writeAuditPolicy records one event per finished request. Health, version and
// discovery are left out, so that what is counted is the work of the clients.
func (cp *ControlPlane) writeAuditPolicy() error {
	level := cp.opts.AuditLevel
	if level == "" {
		level = "Metadata"
	}
	policy := `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: false
rules:
- level: None
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*", "/metrics", "/version", "/api", "/api/*", "/apis", "/apis/*", "/openapi/*"]
- level: None
  users: ["system:apiserver"]
`
	if groups := cp.opts.AuditSecretsOf; len(groups) > 0 {
		policy += "- level: RequestResponse\n  userGroups: [\"" + strings.Join(groups, `", "`) + "\"]\n  resources: [{group: \"\", resources: [secrets]}]\n"
	}
	policy += "- level: " + level + "\n"
	if err := os.WriteFile(cp.path("audit-policy.yaml"), []byte(policy), 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	return nil
}
