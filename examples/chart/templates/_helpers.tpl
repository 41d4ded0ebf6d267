{{- define "demo.labels" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "demo.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "demo.container" -}}
image: {{ include "demo.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
command: ["demo"]
args: [{{ .component | quote }}]
env:
  - name: DEMO_RELEASE
    value: {{ .root.Release.Name | quote }}
  - name: DEMO_BEHAVIOUR
    value: {{ (index .root.Values .component).behaviour | quote }}
  - name: DEMO_DATABASE_URL
    valueFrom:
      secretKeyRef:
        name: {{ .root.Release.Name }}-credentials
        key: databaseURL
  - name: DEMO_TOKEN_FILE
    value: /etc/demo/token
volumeMounts:
  - name: credentials
    mountPath: /etc/demo
    readOnly: true
securityContext:
  readOnlyRootFilesystem: true
resources: {{- toYaml .root.Values.resources | nindent 2 }}
{{- end }}

{{- define "demo.volumes" -}}
- name: credentials
  secret:
    secretName: {{ .Release.Name }}-credentials
    items:
      - key: token
        path: token
{{- end }}
